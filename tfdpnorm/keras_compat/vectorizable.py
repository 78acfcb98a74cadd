"""Types of the operations that may be vectorised over rows.

`tests/keras_compat/converters` compares each of them with a loop over rows, in values and
gradients, on both versions of TensorFlow. Others run row by row: TensorFlow has had converters that
mix rows or change values, and nothing else would show it.
"""

VECTORIZABLE = frozenset(
    """
    Abs Acos Acosh Add AddN AddV2 AdjustContrastv2 AdjustHue AdjustSaturation All Angle Any
    ApproximateEqual ArgMax ArgMin Asin Asinh Assert Atan Atan2 Atanh AvgPool AvgPool3D
    AvgPool3DGrad AvgPoolGrad BatchMatMul BatchMatMulV2 BatchToSpaceND BesselI0 BesselI0e
    BesselI1 BesselI1e BesselJ0 BesselJ1 BesselK0 BesselK0e BesselK1 BesselK1e BesselY0 BesselY1
    BiasAdd BiasAddGrad BitwiseAnd BitwiseOr BitwiseXor BroadcastTo Bucketize Case Cast Ceil
    CheckNumerics Cholesky ClipByValue Complex ComplexAbs ConcatV2 Conj ConjugateTranspose
    Conv2D Conv2DBackpropFilter Conv2DBackpropInput Cos Cosh Cross Cumprod Cumsum Dawsn
    DepthToSpace DepthwiseConv2dNative DepthwiseConv2dNativeBackpropFilter
    DepthwiseConv2dNativeBackpropInput Diag DiagPart Digamma Div DivNoNan Einsum Elu EluGrad
    EnsureShape Equal Erf Erfc Erfinv Exp ExpandDims Expint Expm1 FFT FFT2D FFT3D Fill Floor
    FloorDiv FloorMod FresnelCos FresnelSin FusedBatchNormGradV3 FusedBatchNormV3 GatherNd
    GatherV2 Greater GreaterEqual IFFT IFFT2D IFFT3D IRFFT IRFFT2D IRFFT3D Identity IdentityN If
    Igamma IgammaGradA Igammac Imag Inv Invert IsFinite IsInf IsNan LeakyRelu LeakyReluGrad
    LeftShift Less LessEqual Lgamma Log Log1p LogMatrixDeterminant LogSoftmax LogicalAnd
    LogicalNot LogicalOr LowerBound MatMul MatrixBandPart MatrixDiag MatrixDiagPart
    MatrixDiagPartV2 MatrixDiagPartV3 MatrixDiagV2 MatrixDiagV3 MatrixInverse MatrixSetDiag
    MatrixSetDiagV2 MatrixSetDiagV3 MatrixSolve MatrixTriangularSolve Max MaxPool MaxPool3D
    MaxPool3DGrad MaxPool3DGradGrad MaxPoolGrad MaxPoolGradGrad MaxPoolGradGradV2 MaxPoolGradV2
    MaxPoolV2 Maximum Mean Min Minimum Mod Mul MulNoNan Multinomial Ndtri Neg NotEqual OneHot
    OnesLike OptionalFromValue OptionalGetValue Pack Pad PadV2 PartitionedCall Polygamma Pow
    Prod RFFT RFFT2D RFFT3D RandomGamma RandomPoissonV2 RandomStandardNormal RandomUniform
    RandomUniformInt Rank Real RealDiv Reciprocal ReciprocalGrad Relu Relu6 Relu6Grad ReluGrad
    Reshape ReverseV2 RightShift Rint Roll Round Rsqrt RsqrtGrad Select SelectV2
    SelfAdjointEigV2 Selu SeluGrad Shape ShapeN Sigmoid SigmoidGrad Sign Sin Sinh Size Slice
    Softmax SoftmaxCrossEntropyWithLogits Softplus SoftplusGrad Softsign SoftsignGrad
    SpaceToBatchND SpaceToDepth SparseSoftmaxCrossEntropyWithLogits Spence Split SplitV Sqrt
    SqrtGrad Square SquaredDifference Squeeze StatefulPartitionedCall StatelessCase StatelessIf
    StatelessMultinomial StatelessParameterizedTruncatedNormal StatelessRandomBinomial
    StatelessRandomGammaV2 StatelessRandomNormal StatelessRandomPoisson StatelessRandomUniform
    StatelessRandomUniformFullInt StatelessRandomUniformInt StatelessTruncatedNormal
    StatelessWhile StopGradient StridedSlice StridedSliceGrad Sub Sum Tan Tanh TanhGrad
    TensorListFromTensor TensorListGetItem TensorListLength TensorListPopBack TensorListPushBack
    TensorListReserve TensorListScatterIntoExistingList TensorListSetItem TensorListStack
    TensorScatterUpdate Tile TopKV2 Transpose TruncateDiv TruncateMod TruncatedNormal Unpack
    UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd UnsortedSegmentSum UpperBound
    While Xdivy Xlog1py Xlogy ZerosLike Zeta
    """.split()
)
