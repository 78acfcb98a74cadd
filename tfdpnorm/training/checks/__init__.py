"""What private training refuses, each with its remedy."""
