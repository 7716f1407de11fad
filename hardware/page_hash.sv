// The hash that turns a page and its code (CPFN) into a bucket: tabulation with probing, one clock cycle.
//
// A key of 45 bits (page number, above it the address space) is cut into slices of 8, 8, 8, 8, 8 and 5 bits, the highest
// first; each reads a table of 32-bit constants, and the exclusive or of the six words is the hash. Member k of the
// family reads k entries further, modulo the table's size. `crates/vm/src/hash/tabulation.rs` is the same function in
// software, and writes the tables.

`default_nettype none

// One constant table: the word at `index`.
module hash_table #(
    parameter BITS = 8,
    parameter FILE = ""
) (
    input  wire [BITS-1:0] index,
    output wire [31:0]     word
);
    reg [31:0] words [0:(1 << BITS)-1];
    initial $readmemh(FILE, words);
    assign word = words[index];
endmodule

// One table as the family sees it: the word for member `member`.
//
// MULTIPLEXED = 0 adds the member to the index and reads once. MULTIPLEXED = 1 reads an entry for every member and
// then selects: the organisation of the circuit published with Mosaic Pages.
module hash_slice #(
    parameter BITS = 8,
    parameter MEMBER_BITS = 3,
    parameter MULTIPLEXED = 0,
    parameter FILE = ""
) (
    input  wire [BITS-1:0]        slice,
    input  wire [MEMBER_BITS-1:0] member,
    output wire [31:0]            word
);
    generate
        if (MULTIPLEXED) begin : multiplexed
            wire [31:0] words [0:(1 << MEMBER_BITS)-1];
            genvar k;
            for (k = 0; k < (1 << MEMBER_BITS); k = k + 1) begin : entry
                wire [BITS-1:0] index = slice + BITS'(k);
                hash_table #(.BITS(BITS), .FILE(FILE)) table_of_member (.index(index), .word(words[k]));
            end
            assign word = words[member];
        end else begin : added
            wire [BITS-1:0] index = slice + BITS'(member);
            hash_table #(.BITS(BITS), .FILE(FILE)) only_table (.index(index), .word(word));
        end
    endgenerate
endmodule

// Member `member` of the family, for `1 << MEMBER_BITS` members.
module page_hash #(
    parameter MEMBER_BITS = 3,
    parameter MULTIPLEXED = 0
) (
    input  wire                   clock,
    input  wire [44:0]            key,
    input  wire [MEMBER_BITS-1:0] member,
    output reg  [31:0]            hash
);
    wire [31:0] w0, w1, w2, w3, w4, w5;
    hash_slice #(8, MEMBER_BITS, MULTIPLEXED, "table0.hex") s0 (key[44:37], member, w0);
    hash_slice #(8, MEMBER_BITS, MULTIPLEXED, "table1.hex") s1 (key[36:29], member, w1);
    hash_slice #(8, MEMBER_BITS, MULTIPLEXED, "table2.hex") s2 (key[28:21], member, w2);
    hash_slice #(8, MEMBER_BITS, MULTIPLEXED, "table3.hex") s3 (key[20:13], member, w3);
    hash_slice #(8, MEMBER_BITS, MULTIPLEXED, "table4.hex") s4 (key[12:5],  member, w4);
    hash_slice #(5, MEMBER_BITS, MULTIPLEXED, "table5.hex") s5 (key[4:0],   member, w5);
    always @(posedge clock) hash <= w0 ^ w1 ^ w2 ^ w3 ^ w4 ^ w5;
endmodule

// The first member alone.
module page_hash_1 (
    input  wire        clock,
    input  wire [44:0] key,
    output wire [31:0] hash
);
    page_hash #(.MEMBER_BITS(1)) only (.clock(clock), .key(key), .member(1'b0), .hash(hash));
endmodule

// Two, four and eight members, one at a time.
module page_hash_2 (input wire clock, input wire [44:0] key, input wire [0:0] member, output wire [31:0] hash);
    page_hash #(.MEMBER_BITS(1)) only (.clock(clock), .key(key), .member(member), .hash(hash));
endmodule

module page_hash_4 (input wire clock, input wire [44:0] key, input wire [1:0] member, output wire [31:0] hash);
    page_hash #(.MEMBER_BITS(2)) only (.clock(clock), .key(key), .member(member), .hash(hash));
endmodule

module page_hash_8 (input wire clock, input wire [44:0] key, input wire [2:0] member, output wire [31:0] hash);
    page_hash #(.MEMBER_BITS(3)) only (.clock(clock), .key(key), .member(member), .hash(hash));
endmodule

// Eight members, one at a time, in the published organisation.
module page_hash_8_multiplexed (
    input  wire        clock,
    input  wire [44:0] key,
    input  wire [2:0]  member,
    output wire [31:0] hash
);
    page_hash #(.MEMBER_BITS(3), .MULTIPLEXED(1)) only (.clock(clock), .key(key), .member(member), .hash(hash));
endmodule

// All eight members at once: a translation that does not wait for its code.
module page_hash_8_parallel (
    input  wire             clock,
    input  wire [44:0]      key,
    output wire [8*32-1:0]  hashes
);
    genvar k;
    generate
        for (k = 0; k < 8; k = k + 1) begin : each
            page_hash #(.MEMBER_BITS(3)) one (.clock(clock), .key(key), .member(3'(k)), .hash(hashes[32*k +: 32]));
        end
    endgenerate
endmodule

`default_nettype wire
