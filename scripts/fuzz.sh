#!/bin/sh
# Runs every fuzz target for FUZZ_SECONDS (60).
set -eu
exec fuzz/run.sh "${FUZZ_SECONDS:-60}"
