// All organisations side by side, for the check against software.
module bench (
    input  wire             clock,
    input  wire [44:0]      key,
    input  wire [2:0]       member,
    output wire [31:0]      first,
    output wire [31:0]      added,
    output wire [31:0]      multiplexed,
    output wire [8*32-1:0]  parallel
);
    page_hash_1 h1 (.clock(clock), .key(key), .hash(first));
    page_hash_8 h8 (.clock(clock), .key(key), .member(member), .hash(added));
    page_hash_8_multiplexed m8 (.clock(clock), .key(key), .member(member), .hash(multiplexed));
    page_hash_8_parallel p8 (.clock(clock), .key(key), .hashes(parallel));
endmodule
