#!/bin/sh
# Fuzzes: run.sh [TARGET [SECONDS]]. Without a target, each one in turn; 60 seconds each by default.
set -eu
cd "$(dirname "$0")/.."
seconds=${2:-60}
triple=$(rustc -vV | sed -n 's/^host: //p')
RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing" \
    cargo build --release --manifest-path fuzz/libfuzzer/Cargo.toml --target "$triple" \
    --target-dir target/fuzz
if [ $# -gt 0 ]; then targets=$1; else targets=$(ls fuzz/corpus); fi
for target in $targets; do
    echo "== $target"
    # New inputs go to the first directory; the committed ones are only read.
    mkdir -p "target/fuzz/corpus/$target" "target/fuzz/artifacts/$target"
    NAMEWIRE_FUZZ_TARGET=$target "target/fuzz/$triple/release/namewire-libfuzzer" \
        -max_total_time="$seconds" -max_len=9000 -timeout=5 -rss_limit_mb=1024 -print_final_stats=1 \
        -artifact_prefix="target/fuzz/artifacts/$target/" \
        "target/fuzz/corpus/$target" "fuzz/corpus/$target"
done
