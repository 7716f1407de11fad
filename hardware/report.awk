# The circuit's figures, a name and a number each, for `pagewalk paper mosaic circuit`. A NAND2X1 of the library is 24 of
# its area units: one gate equivalent.

function row(name, value) { printf "%s %.6g\n", name, value }

BEGIN {
    kge = 24000
    fo4 = (c16 - c6) / 10
    printf "vectors %d\n", checked
    row("area-1", a1 / kge)
    row("area-2", a2 / kge)
    row("area-4", a4 / kge)
    row("area-8", a8 / kge)
    row("area-8-to-1", a8 / a1)
    row("area-8-multiplexed-to-1", m8 / a1)
    row("area-8-parallel", p8 / kge)
    row("area-8-fast", f8 / kge)
    row("fo4", fo4)
    row("delay-1", d1)
    row("delay-1-fo4", d1 / fo4)
    row("delay-8", d8)
    row("delay-8-fo4", d8 / fo4)
    row("delay-8-28nm", 13 * d8 / fo4)
}
