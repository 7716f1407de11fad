# The circuit's figures beside the published ones, with their gates. A NAND2X1 of the library is 24 of its area units:
# one gate equivalent.

function row(item, published, ours, least, most,    verdict, gate) {
    verdict = "report"
    gate = "-"
    if (least != "") {
        # A formatted number is text: adding 0 makes it one again.
        verdict = ours + 0 >= least && (most == "" || ours + 0 <= most) ? "pass" : "MISS"
        gate = most == "" ? "at least " least : least " to " most
        if (verdict == "MISS") missed = 1
    }
    printf "%-52s %-22s %10s  %-16s %s\n", item, published, ours, gate, verdict
}

function kge(area) { return sprintf("%.2f", area / 24000) }

BEGIN {
    fo4 = (c16 - c6) / 10
    printf "%-52s %-22s %10s  %-16s %s\n", "circuit, OSU 0.18 um", "published", "ours", "gate", "verdict"
    row("vectors equal to software", "-", checked, 1000000)
    row("area of 1 member, kGE", "-", kge(a1))
    row("area of 2 members, kGE", "-", kge(a2))
    row("area of 4 members, kGE", "-", kge(a4))
    row("area of 8 members, kGE", "13.8 (28 nm)", kge(a8), 8, 15)
    row("area of 8 members to 1", "\"minimal increase\"", sprintf("%.3f", a8 / a1), 0, 1.25)
    row("the same, reading 8 entries and multiplexing", "-", sprintf("%.2f", m8 / a1), 6, 8)
    row("area of 8 members in parallel, kGE", "-", kge(p8))
    row("fan-out-of-4 inverter, ns", "-", sprintf("%.4f", fo4))
    row("delay of 1 member, ns", "-", d1)
    row("delay of 1 member, FO4", "-", sprintf("%.1f", d1 / fo4), 0, 30)
    row("delay of 8 members, ns", "0.220 (28 nm)", d8)
    row("delay of 8 members, FO4", "-", sprintf("%.1f", d8 / fo4), 0, 30)
    row("delay of 8 members at 13 ps a FO4 (28 nm), ps", "220", sprintf("%.0f", 13 * d8 / fo4))
    row("area of 8 members as built for delay, kGE", "13.8 (28 nm)", kge(f8))
    print ""
    print "published: a commercial flow in 28 nm; ours: Yosys and ABC in 180 nm, compared through gate equivalents and FO4."
    print "Tables are constants (seed " seed "): as registers, as the paper says, they alone would be 168 kGE."
    exit missed
}
