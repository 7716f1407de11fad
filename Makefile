# The two commands: `make run` sets up, builds and runs the main job; `make test` sets up and passes the tests.

CARGO ?= cargo
# The folder for build results: Cargo's, and the front-ends for live programs.
TARGET ?= $(CURDIR)/target
FRONTENDS = $(TARGET)/pagewalk
PAGEWALK = $(TARGET)/release/pagewalk
FUZZ_SECONDS ?= 60
# The published crates, each after those that it depends on.
LIBRARIES = pagewalk-cuckoo pagewalk-iceberg pagewalk-blade pagewalk-vm pagewalk-elastic pagewalk-ctfs
PREFIX ?= /usr/local
# What is tested, the preloaded library and the examples are built with the same features and profile, so that no library is built twice.
TESTED = --profile test --workspace --all-features

# Many tests wait, for a program or for a moment, and leave a processor to others.
RUST_TEST_THREADS ?= $(shell echo $$(($$(nproc) + 2)))

# What is built here is built once, and not edited in between.
CARGO_INCREMENTAL ?= 0

export RUST_TEST_THREADS CARGO_INCREMENTAL
export CARGO_TARGET_DIR = $(TARGET)
export PAGEWALK_LIB = $(FRONTENDS)

run: setup build
	scripts/demo.sh $(PAGEWALK)

# The front-ends are built beside the rest.
test: setup
	$(MAKE) --no-print-directory frontends & frontends=$$!; \
	$(CARGO) build --quiet $(TESTED) --lib --bins --tests --examples; built=$$?; \
	wait $$frontends && exit $$built
	$(MAKE) --no-print-directory --jobs=2 --output-sync=target --keep-going unit-tests integration-tests
	$(MAKE) --no-print-directory examples

# Cargo runs one test binary after another, and the last test of each leaves processors without work. In two halves of a like
# length, which are built already, one has work where the other has none. Tests of libraries wait for nothing but each other: more
# of their threads than processors only take these from each other. (Cargo would look for make's job server, which it is not given.)
unit-tests: export RUST_TEST_THREADS = $(shell nproc)
unit-tests:
	MAKEFLAGS= $(CARGO) test --workspace --all-features --quiet --no-fail-fast --lib --bins
	MAKEFLAGS= $(CARGO) test --workspace --all-features --quiet --no-fail-fast --doc

integration-tests:
	MAKEFLAGS= $(CARGO) test --workspace --all-features --quiet --no-fail-fast --test '*'

bench: setup build
	@[ "$$(id -u)" != 0 ] || { scripts/setup.sh images && scripts/setup.sh leveldb && scripts/setup.sh server; }
	$(CARGO) build --release --package pagewalk-ctfs --example bare
	PAGEWALK=$(PAGEWALK) scripts/bench.sh

# Every experiment of every paper at its published size: long.
papers: setup build
	$(PAGEWALK) paper mosaic --hardware $(TARGET)/hardware --out pagewalk-out/mosaic
	$(PAGEWALK) paper me-hpt --out pagewalk-out/me-hpt
	$(PAGEWALK) paper pfa --out pagewalk-out/pfa
	$(PAGEWALK) paper astriflash --out pagewalk-out/astriflash
	$(PAGEWALK) paper ctfs --out pagewalk-out/ctfs

# The tests that take minutes or much memory.
soak: setup
	$(CARGO) test --release --package pagewalk-cuckoo --package pagewalk-vm --package pagewalk-workload \
		--package pagewalk-ctfs --package pagewalk-capture --package pagewalk-cli -- --ignored
	TARGET=$(TARGET) scripts/extend.py all --lint
	$(MAKE) --no-print-directory build
	scripts/gates.py $(PAGEWALK) $(TARGET)/gates || [ $$? = 2 ]

# Predicted time, and what huge pages gain, against the stopwatch: an hour and a half on a quiet machine, which a busy one makes void.
gates: setup build
	scripts/gates.py $(PAGEWALK) $(TARGET)/gates

# The toy TLB array of docs/extend.md, applied to a copy of the tree: one new file, one row.
extend: setup
	TARGET=$(TARGET) scripts/extend.py tlb

lint: setup
	scripts/language.py --self-test
	scripts/structure.py --self-test
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --all-features --quiet -- -D warnings
	for library in $(LIBRARIES); do \
		$(CARGO) clippy -p $$library --all-targets --no-default-features --quiet -- -D warnings || exit 1; \
	done
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --quiet
	scripts/mutants.py --check

# Plants known defects of file systems, one at a time: the tests must catch each. Long.
mutants: setup
	scripts/mutants.py $(TARGET)

fuzz: setup
	fuzz/run.sh $(FUZZ_SECONDS)

# The translation hash in SystemVerilog: checked, synthesised, measured.
hardware: build
	@scripts/setup.sh hardware
	hardware/run.sh $(TARGET)/hardware
	$(PAGEWALK) paper mosaic circuit --hardware $(TARGET)/hardware

# The RISC-V machine's programs, and random ones beside QEMU.
riscv: build
	@scripts/setup.sh riscv
	examples/riscv/build.sh $(TARGET)/riscv
	$(CARGO) test --package pagewalk-riscv

# Built-in workloads beside the real programs that they stand for.
crosscheck: build
	@scripts/setup.sh programs
	scripts/crosscheck.sh $(PAGEWALK)

# LevelDB under YCSB's loads on the file system, beside the host's file system and beside ext4 in the same memory.
ycsb: build
	@scripts/setup.sh leveldb
	@scripts/setup.sh images
	scripts/ycsb.sh --in-memory $(PAGEWALK)
	scripts/ycsb.sh $(PAGEWALK)

# Debian's bash, dash, coreutils, findutils, tar and autoconf: their own test suites on a mounted store, under the preloaded library,
# beside tmpfs. Long, and takes root.
suites: build
	@scripts/setup.sh suites
	scripts/suites.sh $(PAGEWALK)

# Other projects' file-system tests, in every mode of a mount, on the mount and under `fs run`. Long, and takes root.
modes: build
	@scripts/setup.sh modes
	$(CARGO) install --quiet --locked --root $(TARGET)/tools --version 0.3.2 fsx
	FSX=$(TARGET)/tools/bin/fsx scripts/modes.sh $(PAGEWALK)

build: setup frontends
	$(CARGO) build --release --package pagewalk-cli --package pagewalk-ctfs-shim

# The command, its mount helper for mount(8) and fstab, and its systemd unit.
install: build
	scripts/install.sh $(TARGET) $(PREFIX)

# An example of each library, whose exit code is its verdict.
examples: setup
	$(CARGO) build --quiet $(TESTED) --lib --examples
	for example in numbers visits remote_page walks words notes; do \
		$(TARGET)/debug/examples/$$example </dev/null || exit 1; \
	done

# The libraries as a registry gets them: docs/publishing.md.
package:
	$(CARGO) package $(addprefix -p ,$(LIBRARIES))

frontends: setup
	$(MAKE) --no-print-directory -C crates/capture OUT=$(FRONTENDS)

setup:
	@scripts/setup.sh

clean:
	rm -rf $(TARGET) fuzz/target pagewalk-out

.PHONY: run test unit-tests integration-tests bench papers soak gates extend lint mutants fuzz hardware riscv crosscheck ycsb suites modes build install examples package frontends setup clean
