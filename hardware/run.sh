#!/bin/sh
# Checks the translation hash in SystemVerilog against the software hash, and measures its area and delay in an open
# standard-cell library: run.sh FOLDER [VECTORS]. Logs go to FOLDER, and the file `figures`, which
# `pagewalk paper mosaic circuit` judges.
#
# Exit 1 if a vector differs, 2 if a tool fails or is missing.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
folder=${1:?usage: run.sh FOLDER [VECTORS]}
vectors=${2:-2000000}
seed=0
cargo=${CARGO:-cargo}
# OSU 0.18 um, as Debian's package installs it; it is licensed apart and not copied.
library=/usr/share/qflow/tech/osu018/osu018_stdcells.lib

fail() {
    echo "error: $1" >&2
    exit 2
}

mkdir -p "$folder"
cd "$folder"

echo "tables and vectors" >&2
(cd "$here" && $cargo build --quiet --release --package pagewalk-vm --example translation_hash) || fail "cargo build"
hash=${CARGO_TARGET_DIR:-$here/../target}/release/examples/translation_hash
"$hash" tables . $seed

echo "simulation: $vectors vectors" >&2
verilator --cc --exe --build -O3 -Wall -Wno-DECLFILENAME --top-module bench --prefix Vbench -Mdir simulation \
    "$here/page_hash.sv" "$here/bench.sv" "$here/check.cpp" > verilator.log 2>&1 ||
    fail "verilator, see $folder/verilator.log"
checked=$("$hash" vectors "$vectors" $seed | simulation/Vbench) || {
    echo "the circuit and the software hash differ" >&2
    exit 1
}

# Synthesis for area: `area DESIGN` leaves DESIGN.area, in the library's unit.
area() {
    yosys -q -l "$1.area.log" -p "
        read_verilog -sv -defer $here/page_hash.sv; hierarchy -top $1; synth -flatten -top $1
        dfflibmap -liberty $library; abc -liberty $library; opt_clean
        tee -q -o $1.stat stat -liberty $library" > /dev/null 2>&1 || fail "yosys, see $folder/$1.area.log"
    sed -n 's/.*Chip area for module.*: *//p' "$1.stat" > "$1.area"
    [ -s "$1.area" ] || fail "no area in $folder/$1.stat"
}

# Synthesis for delay, and the longest path: `delay DESIGN` leaves DESIGN.delay in ns and DESIGN.fast, its area.
delay() {
    yosys -q -l "$1.delay.log" -p "
        read_verilog -sv -defer $here/page_hash.sv; hierarchy -top $1; synth -flatten -top $1
        dfflibmap -liberty $library; abc -D 1000 -constr $here/abc.constr -script $here/abc.script -liberty $library
        opt_clean; tee -q -o $1.fast.stat stat -liberty $library
        write_verilog -noattr $1.netlist.v" > /dev/null 2>&1 || fail "yosys, see $folder/$1.delay.log"
    sed -n 's/.*Chip area for module.*: *//p' "$1.fast.stat" > "$1.fast"
    path "$1.netlist.v" "$1" "create_clock -name clock -period 10 [get_ports clock]" > "$1.delay"
}

# `path NETLIST TOP CLOCK`: the longest path's arrival time in ns.
path() {
    cat > "$2.tcl" << TCL
read_liberty $library
read_verilog $1
link_design $2
$3
set_input_delay 0 -clock clock [all_inputs]
set_output_delay 0 -clock clock [all_outputs]
set_driving_cell -lib_cell BUFX4 [all_inputs]
set_load 0.05 [all_outputs]
report_checks -path_delay max -digits 4
exit
TCL
    sta -exit "$2.tcl" > "$2.sta.log" 2>&1 || fail "sta, see $folder/$2.sta.log"
    arrival=$(awk '/data arrival time/ { print $1; exit }' "$2.sta.log")
    [ -n "$arrival" ] || fail "no path in $folder/$2.sta.log"
    echo "$arrival"
}

# The delay of an inverter that drives four of its kind, the usual measure across processes: chains of 6 and of 16.
chain() {
    echo "module chain$1 (input in, output out);"
    echo "  wire [$1:0] stage;"
    echo "  assign stage[0] = in;"
    echo "  assign out = stage[$1];"
    i=0
    while [ $i -lt "$1" ]; do
        echo "  INVX1 s$i (.A(stage[$i]), .Y(stage[$((i + 1))]));"
        for load in a b c; do
            echo "  wire l$i$load; INVX1 d$i$load (.A(stage[$((i + 1))]), .Y(l$i$load));"
        done
        i=$((i + 1))
    done
    echo "endmodule"
}

echo "synthesis: six designs for area, two for delay (about three minutes)" >&2
# Two at a time; the multiplexed one takes longest.
{ area page_hash_8_multiplexed; } &
long=$!
for design in page_hash_1 page_hash_2 page_hash_4 page_hash_8 page_hash_8_parallel; do
    area $design
done
delay page_hash_1
delay page_hash_8
for length in 6 16; do
    chain $length > chain$length.v
    path chain$length.v chain$length "create_clock -name clock -period 10" > chain$length.delay
done
wait $long || exit 2

value() { cat "$1"; }
awk -v checked="$checked" \
    -v a1="$(value page_hash_1.area)" -v a2="$(value page_hash_2.area)" -v a4="$(value page_hash_4.area)" \
    -v a8="$(value page_hash_8.area)" -v m8="$(value page_hash_8_multiplexed.area)" \
    -v p8="$(value page_hash_8_parallel.area)" -v f8="$(value page_hash_8.fast)" \
    -v d1="$(value page_hash_1.delay)" -v d8="$(value page_hash_8.delay)" \
    -v c6="$(value chain6.delay)" -v c16="$(value chain16.delay)" -f "$here/report.awk" > figures.new
mv figures.new figures
