// Runs the circuits over vectors made by the software hash: lines of `key member hash` in hexadecimal on standard input.
// Exit code 1 on the first difference.
#include <cinttypes>
#include <cstdio>

#include "Vbench.h"
#include "verilated.h"

int main(int argc, char** argv) {
    VerilatedContext context;
    context.commandArgs(argc, argv);
    Vbench bench{&context};
    uint64_t key, vectors = 0;
    uint32_t member, hash;
    while (std::scanf("%" SCNx64 " %" SCNx32 " %" SCNx32, &key, &member, &hash) == 3) {
        bench.key = key;
        bench.member = member;
        bench.clock = 0;
        bench.eval();
        bench.clock = 1;
        bench.eval();
        const uint32_t parallel = bench.parallel[member];
        const bool first = member != 0 || bench.first == hash;
        if (bench.added != hash || bench.multiplexed != hash || parallel != hash || !first) {
            std::fprintf(stderr,
                         "vector %" PRIu64 ": key %011" PRIx64 " member %" PRIu32 ": software %08" PRIx32
                         ", added %08" PRIx32 ", multiplexed %08" PRIx32 ", parallel %08" PRIx32 ", first %08" PRIx32 "\n",
                         vectors, key, member, hash, bench.added, bench.multiplexed, parallel, bench.first);
            return 1;
        }
        ++vectors;
    }
    if (!std::feof(stdin)) {
        std::fprintf(stderr, "vector %" PRIu64 " is not `key member hash`\n", vectors);
        return 2;
    }
    std::printf("%" PRIu64 "\n", vectors);
    return 0;
}
