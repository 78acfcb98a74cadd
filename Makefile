# Every target runs in .venv. The targets create .venv themselves, from the lock file of the
# Python they find, so `make demo` works in a fresh checkout. Another TensorFlow has an environment
# of its own, such as .venv-tf2.15; only TensorFlow 2.15 comes with tensorflow-privacy.
#
# Variables:
#   PYTHON=...         Python that creates the environment: a version, 3.10 to 3.13, or a path
#   TENSORFLOW=...     2.21 unless told; 2.15; or 2.16 to 2.20, for which there is no lock
#   KERAS=...          with a TensorFlow without a lock: the version of Keras, the newest unless told
#   PYTEST_ARGS=...    extra arguments for pytest, for example PYTEST_ARGS="-k privacy"
#   WORKERS=...        number of test processes
#   VENV=...           the environment, .venv or .venv-tf2.15 and the like unless told
#   FUZZ_EXAMPLES=...  inputs for each target of `make fuzz`; targets that train get fewer
#   MUTANTS=...        names of single mutants for `make mutants`
#   UPGRADE=yes        with `make lock`: take the newest versions that setup.py allows
#   LOCKED=no          install the version ranges of setup.py instead of the lock; the default
#                      outside Linux x86_64, because the locks are made for that platform

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help demo test test-versions env-versions test-all fuzz mutants docs lint format lock clean env check-python

PYTHON ?=
TENSORFLOW ?= 2.21
KERAS ?=
PYTEST_ARGS ?=
WORKERS ?= 2
FUZZ_EXAMPLES ?= 2000
MUTANTS ?=
UPGRADE ?= no
LOCKS := 2.15 2.21
LOCKED ?= $(if $(filter Linux-x86_64,$(shell uname -s)-$(shell uname -m)),$(if \
    $(filter $(LOCKS),$(TENSORFLOW)),yes,no),no)
UV_VERSION := 0.13.8
PYDOCLINT_VERSION := 0.12.0

VENV ?= .venv$(if $(filter-out 2.21,$(TENSORFLOW)),-tf$(TENSORFLOW))
VENV_PYTHON := $(VENV)/bin/python

# Shell functions. The recipes get them through the environment.
define FUNCTIONS
given='$(PYTHON)'
tensorflow='$(TENSORFLOW)'
keras='$(KERAS)'
locked='$(LOCKED)'
venv='$(VENV)'
or_else=', or give VENV=another-folder'
show_version='import sys; print("%d.%d.%d" % sys.version_info[:3])'
show_stack='import platform; from importlib.metadata import version
print("Python %s, TensorFlow %s, Keras %s" % (platform.python_version(), version("tensorflow"), version("keras")))'

# pick_python: set py and version to a Python that runs here and has wheels of this TensorFlow, the
# first versions first; else say what was found instead. Names on the PATH come before what pyenv
# has installed.
pick_python() {
    py= found=
    case $$tensorflow in
        2.15) wanted="3.11 3.10" ;;
        2.1[6-9]) wanted="3.12 3.11 3.10" ;;
        *) wanted="3.12 3.13 3.11 3.10" ;;
    esac
    case $$given in
        3.[0-9]*) tried=$$given ;;
        *) tried=$$wanted ;;
    esac
    if [ -n "$$given" ] && [ "$$tried" != "$$given" ]; then
        set -- "$$given"
    else
        set --
        for minor in $$tried; do set -- "$$@" "python$$minor"; done
        if [ -z "$$given" ]; then set -- "$$@" python3 python; fi
        for minor in $$tried; do
            for candidate in "$${PYENV_ROOT:-$$HOME/.pyenv}/versions/$$minor".*/bin/python; do
                if [ -x "$$candidate" ]; then set -- "$$@" "$$candidate"; fi
            done
        done
    fi
    for candidate in "$$@"; do
        case $$candidate in "~/"*) candidate=$$HOME/$${candidate#"~/"} ;; esac
        version=$$("$$candidate" -c "$$show_version" 2>/dev/null </dev/null) || continue
        version=$${version#Python }
        case $$version in [0-9]*) ;; *) continue ;; esac
        case " $$wanted " in
            *" $${version%.*} "*)
                if "$$candidate" -c 'import ensurepip, venv' >/dev/null 2>&1 </dev/null; then
                    py=$$candidate
                    return 0
                fi
                found="$$found, $$candidate (Python $$version without its venv and ensurepip modules)" ;;
            *) found="$$found, $$candidate (Python $$version)" ;;
        esac
    done
    found=$${found#, }
    if [ -z "$$found" ]; then
        if [ -n "$$given" ]; then found="$$given, which does not run"; else found="none"; fi
    fi
    echo "TensorFlow $$tensorflow needs a Python of $$wanted, and found $$found:" \
        "name one with PYTHON=/path/to/python$${wanted%% *}." >&2
    return 1
}

# For a version such as "3.11.7": its lock file, and the stamp that a .venv made from it carries.
lock() { t=$${1#3.}; echo "requirements/py3$${t%%.*}-tf$$tensorflow.lock"; }
packages_stamp() {
    if [ "$$locked" = yes ]; then from=$$(lock "$$1"); else from=setup.py; fi
    echo "$$1 $$(cd "$$venv" && pwd -P) $$(cksum <"$$from") $$from $$tensorflow $$keras"
}
checkout_stamp() { pwd -P; cat setup.py pyproject.toml tfdpnorm/_version.py | cksum; }

# check_ours: fail, with a sentence, if there is something at $$venv that no target made.
check_ours() {
    if [ -e "$$venv"/packages.stamp ] || ! [ -e "$$venv" ]; then return 0; fi
    echo "$$venv is there, but make did not make it (it has no packages.stamp): move it away$$or_else." >&2
    return 1
}

# prepare: create or update the environment; do nothing if it is up to date. packages.stamp is empty until
# all is installed, so that an interrupted or failed installation starts again from nothing.
prepare() {
    current=$$("$$venv"/bin/python -c "$$show_version" 2>/dev/null) || current=
    if [ -n "$$current" ] && [ -n "$$given" ]; then
        pick_python || return 1
        [ "$$version" = "$$current" ] || current=
    fi
    if [ -z "$$current" ] ||
        [ "$$(cat "$$venv"/packages.stamp 2>/dev/null)" != "$$(packages_stamp "$$current")" ]; then
        check_ours || return 1
        # If none is given: the Python that made it, else one of its version, else any.
        asked=$$given
        if [ -z "$$given" ] && [ -n "$$current" ]; then
            given=$$("$$venv"/bin/python -c 'import sys; print(sys._base_executable)')
            pick_python 2>/dev/null || given=$${current%.*}
        fi
        pick_python 2>/dev/null || { given=$$asked; pick_python; } || return 1
        rm -rf "$$venv" || return 1
        mkdir -p "$$venv" && : >"$$venv"/packages.stamp || return 1
        install_packages || { echo "The installation did not finish; the next make starts it anew." >&2; return 1; }
        packages_stamp "$$version" >"$$venv"/packages.stamp
    fi
    if [ "$$(cat "$$venv"/checkout.stamp 2>/dev/null)" != "$$(checkout_stamp)" ]; then
        pip install --no-deps --no-build-isolation -e . || return 1
        checkout_stamp >"$$venv"/checkout.stamp
    fi
    "$$venv"/bin/python -c "$$show_stack"
}

pip() { subcommand=$$1; shift; "$$venv"/bin/python -m pip "$$subcommand" -q --disable-pip-version-check --no-input "$$@"; }

install_packages() {
    "$$py" -m venv "$$venv" || return 1
    if [ "$$locked" = yes ]; then
        from=$$(lock "$$version")
        echo "Installing the versions of $$from into $$venv (Python $$version); this takes a few minutes."
        # Build tools first, with what they need: packages without a wheel need them. They are
        # pinned like the rest.
        awk '/^[a-z0-9]/ { keep = /^(packaging|setuptools|wheel)==/ } keep' "$$from" >"$$venv"/build.txt || return 1
        pip install --require-hashes -r "$$venv"/build.txt || return 1
        pip install --require-hashes --no-build-isolation -r "$$from"
    else
        echo "Installing what setup.py asks for into $$venv (Python $$version, no lock); this takes a few minutes."
        extras=dev
        if [ "$$tensorflow" = 2.15 ]; then extras=dev,tensorflow-privacy; fi
        pip install -e ".[$$extras]" "tensorflow==$$tensorflow.*" $${keras:+"keras==$$keras.*"}
    fi
}
endef
env check-python lock: export SHELL_FUNCTIONS = $(FUNCTIONS)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' Makefile
	@echo "PYTHON=3.12 chooses the Python, TENSORFLOW=2.15 the TensorFlow; more in the Makefile's head."

check-python: ## say which Python would create the environment, or what is missing
	@eval "$$SHELL_FUNCTIONS"; pick_python && echo "$$py (Python $$version)"

env: ## create or update .venv
	@eval "$$SHELL_FUNCTIONS"; prepare

demo: env ## train a small network privately, from a fresh checkout
	@$(VENV_PYTHON) -m trainers.demo

test: env ## run the tests that are not slow
	$(VENV_PYTHON) -m pytest -n $(WORKERS) -m "not slow" $(PYTEST_ARGS)

# What depends on Keras, TensorFlow or dp-accounting, with the oldest ones; and a few tests of every
# part with versions in between.
DEPEND_ON_VERSIONS := $(addprefix tests/, \
    keras_compat keras_conformance layers gradients independence convert \
    $(patsubst %, training/test_%.py, fit make_private saving keras_inputs second_fit) \
    training/other_keras training/resume training/step \
    $(patsubst %, privacy/test_%.py, accountants mixtures published_values))
OF_EVERY_PART := $(addprefix tests/, \
    $(patsubst %, keras_compat/test_%.py, exchange importing models saving) \
    $(patsubst %, training/test_%.py, fit make_private saving) \
    training/resume/test_epochs.py training/resume/test_interrupts.py \
    layers/test_variational_dropout.py gradients/engines convert/test_convert.py \
    tuning/test_private_random_search.py)
IN_BETWEEN := TENSORFLOW=2.18 KERAS=3.5
LATER := TENSORFLOW=2.20 KERAS=3.10

test-versions: ## run the tests that depend on Keras with older versions
	$(MAKE) test TENSORFLOW=2.15 PYTEST_ARGS="$(DEPEND_ON_VERSIONS)"
	$(MAKE) test $(IN_BETWEEN) PYTEST_ARGS="$(OF_EVERY_PART)"
	$(MAKE) test $(LATER) PYTEST_ARGS="$(OF_EVERY_PART)"

env-versions: ## create or update the environments of test-versions
	$(MAKE) env TENSORFLOW=2.15
	$(MAKE) env $(IN_BETWEEN)
	$(MAKE) env $(LATER)

test-all: env ## run all tests
	$(VENV_PYTHON) -m pytest -n $(WORKERS) $(PYTEST_ARGS)

fuzz: env ## try random settings, data, flags and damaged files; report what failed
	TFDPNORM_FUZZ_EXAMPLES=$(FUZZ_EXAMPLES) $(VENV_PYTHON) -m pytest tests/fuzz $(PYTEST_ARGS)

mutants: env ## put faults into a copy of the code; report those that no quick test notices
	$(VENV_PYTHON) -m tests.mutants.run $(MUTANTS)

docs: env ## build the site in build/site; warnings and dead links are errors
	$(VENV_PYTHON) -m sphinx -q -W --keep-going -c docs . build/site
	@echo "The site is in build/site/index.html."

lint: env .venv-pydoclint/$(PYDOCLINT_VERSION) ## check style and format with ruff, docstrings with pydoclint
	$(VENV_PYTHON) -m ruff check .
	$(VENV_PYTHON) -m ruff format --check .
	.venv-pydoclint/bin/pydoclint -q $(DOCUMENTED)

# In an environment of its own: it brings a package that overwrites docstring-parser, which
# tensorflow-datasets needs.
.venv-pydoclint/$(PYDOCLINT_VERSION): | env
	rm -rf .venv-pydoclint
	$(VENV_PYTHON) -m venv .venv-pydoclint
	.venv-pydoclint/bin/python -m pip install -q --disable-pip-version-check pydoclint==$(PYDOCLINT_VERSION)
	touch $@

# The modules that define the names of `tfdpnorm` itself; tests/test_docstrings.py compares them.
DOCUMENTED := tfdpnorm/convert/convert.py \
    tfdpnorm/convert/fold.py \
    tfdpnorm/errors.py \
    tfdpnorm/gradients/clipping.py \
    tfdpnorm/layers/batch_normalization.py \
    tfdpnorm/layers/public_batch_normalization.py \
    tfdpnorm/layers/scale_norm.py \
    tfdpnorm/least_squares/release.py \
    tfdpnorm/privacy/budget.py \
    tfdpnorm/privacy/planning.py \
    tfdpnorm/training/callbacks/private_validation.py \
    tfdpnorm/training/callbacks/weight_average.py \
    tfdpnorm/training/make_private.py \
    tfdpnorm/training/private_model.py \
    tfdpnorm/training/public_rows.py \
    tfdpnorm/training/resume/run_folder.py \
    tfdpnorm/training/suggested_rate.py \
    tfdpnorm/training/suggestions.py \
    tfdpnorm/training/views.py

format: env ## format the code with ruff
	$(VENV_PYTHON) -m ruff format .

# One Python is enough to write all locks.
lock: ## write requirements/*.lock from setup.py
	@eval "$$SHELL_FUNCTIONS"; pick_python || exit 1; \
	scratch=$$(mktemp -d) || exit 1; trap 'rm -rf "$$scratch"' EXIT; trap 'exit 1' HUP INT TERM; \
	"$$py" -m venv "$$scratch/venv" && \
	"$$scratch/venv/bin/python" -m pip install -q --disable-pip-version-check uv==$(UV_VERSION) || exit 1; \
	mkdir -p requirements; \
	for of in 3.10-2.15 3.11-2.15 3.10-2.21 3.11-2.21 3.12-2.21 3.13-2.21; do \
	    tensorflow=$${of#*-}; minor=$${of%-*}; out=$$(lock "$$minor.0"); extras="--extra dev"; \
	    case $$tensorflow in 2.15) extras="$$extras --extra tensorflow-privacy" ;; *) extras="$$extras --extra hub --extra riskcal" ;; esac; \
	    echo "tensorflow==$$tensorflow.*" >"$$scratch/constraints"; \
	    echo "resolving $$out"; \
	    if [ "$(UPGRADE)" != yes ] && [ -f $$out ]; then cp $$out "$$scratch/new.lock"; else rm -f "$$scratch/new.lock"; fi; \
	    "$$scratch/venv/bin/uv" --no-config --cache-dir "$$scratch/cache" \
	        pip compile -q setup.py $$extras --constraint "$$scratch/constraints" \
	        --python-version $$minor --python-platform x86_64-manylinux_2_28 \
	        --generate-hashes --no-annotate --custom-compile-command "make lock" \
	        --output-file "$$scratch/new.lock" >/dev/null || exit 1; \
	    cp "$$scratch/new.lock" $$out || exit 1; \
	done

clean: ## remove the environments that make made, caches and build files; keep outputs/ and results/
	@for made in .venv .venv-tf*; do if [ -e "$$made"/packages.stamp ]; then rm -rf "$$made"; fi; done
	@rm -rf .venv-pydoclint build dist docs/generated *.egg-info .pytest_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
