//! Loops of one kind of instruction, in the cycles that Zen 3 takes for a round (docs/time.md).

use super::dataflow::{LINE, ROUNDS, assert_near, cycles_of_loop, dataflow, zen3};
use super::*;

/// dec %rcx; jne to the beginning, behind so many bytes.
fn around(body: &[u8]) -> Vec<u8> {
    let back = -(body.len() as i64 + 5);
    [body, &[0x48, 0xff, 0xc9, 0x75, back as u8]].concat()
}

/// Cycles for a round of a loop whose round `n` loads and stores at these distances from the beginning of memory.
fn cycles(body: &[u8], accesses: impl Fn(u64) -> Vec<(bool, u64)>) -> f64 {
    cycles_of_loop(&zen3(), 4096, &around(body), |round| {
        let access = |(store, at): (bool, u64)| {
            let at = VirtAddr(BASE + at);
            if store { Access::store(at, 8) } else { Access::load(at, 8) }
        };
        accesses(round).into_iter().map(access).collect()
    })
}

fn computing(body: &[u8]) -> f64 {
    cycles(body, |_| Vec::new())
}

/// The same operation on so many registers, of whose encoding the last byte names the register twice.
fn each(code: &[u8], registers: u8) -> Vec<u8> {
    let of = |register: u8| [code, &[0xc0 | register << 3 | register]].concat();
    (0..registers).flat_map(of).collect()
}

#[test]
fn some_units_do_some_operations_only() {
    // shl $3 of %rax, %rdx, %rbx, %rsi
    let shifts = [0xe0, 0xe2, 0xe3, 0xe6].map(|register| [0x48, 0xc1, register, 3]).concat();
    assert_near(computing(&shifts), 2.0, "four shifts, two a cycle");
    // cmovb %r8 to %rax, %rdx, %rbx, %rsi
    let moves = [0xc0, 0xd0, 0xd8, 0xf0].map(|register| [0x49, 0x0f, 0x42, register]).concat();
    assert_near(computing(&moves), 2.0, "four conditional moves, two a cycle");
    // Three branches that are not taken, and the last.
    assert_near(computing(&[0x74, 64, 0x74, 64, 0x74, 64]), 2.0, "four branches, two a cycle");
    let (additions, multiplications) = (each(&[0xf2, 0x0f, 0x58], 6), each(&[0xf2, 0x0f, 0x59], 6));
    assert_near(computing(&additions), 3.0, "six additions of doubles, two a cycle");
    assert_near(computing(&multiplications), 3.0, "six multiplications, two a cycle");
    // Of other registers, so that none waits: %xmm0 to %xmm5 and %xmm8 to %xmm13.
    let others = (0..6).flat_map(|register: u8| [0xf2, 0x45, 0x0f, 0x59, 0xc0 | register << 3 | register]);
    let both: Vec<u8> = additions.iter().copied().chain(others).collect();
    assert_near(computing(&both), 3.0, "six of each, four a cycle");
    let shuffles: Vec<u8> =
        (0..4).flat_map(|register: u8| [0x66, 0x0f, 0xc6, 0xc0 | register << 3 | register, 1]).collect();
    assert_near(computing(&shuffles), 2.0, "four shuffles, two a cycle");
    assert_near(computing(&each(&[0x66, 0x0f, 0xfe], 8)), 2.0, "eight additions of integers, four a cycle");
    // movq %rax to %xmm0, %xmm1
    assert_near(
        computing(&[0x66, 0x48, 0x0f, 0x6e, 0xc0, 0x66, 0x48, 0x0f, 0x6e, 0xc8]),
        2.0,
        "one transfer a cycle",
    );
    // divsd %xmm0 into %xmm1, %xmm2, %xmm3, %xmm4
    let divisions = [0xc8, 0xd0, 0xd8, 0xe0].map(|registers| [0xf2, 0x0f, 0x5e, registers]).concat();
    assert_near(computing(&divisions), 16.0, "a division every four cycles");
    assert_near(computing(&[0xf2, 0x0f, 0x5e, 0xc1]), 13.0, "a chain of divisions");
}

#[test]
fn loads_and_stores_of_vectors_and_stores_to_several_lines_take_longer() {
    let four = |store, distance| move |_| (0..4_u64).map(|number| (store, number * distance)).collect();
    // movsd 0, 8, 16, 24(%rdi) to %xmm0..3
    let loads = [0x47, 0x4f, 0x57, 0x5f].iter().zip([0, 8, 16, 24]);
    let loads: Vec<u8> = loads.flat_map(|(&register, at)| [0xf2, 0x0f, 0x10, register, at]).collect();
    assert_near(cycles(&loads, four(false, 8)), 2.0, "two loads of vectors a cycle");
    let vectors: Vec<u8> = [0, 8, 16, 24].iter().flat_map(|&at| [0xf2, 0x0f, 0x11, 0x47, at]).collect();
    assert_near(cycles(&vectors, four(true, 8)), 4.0, "a store of a vector a cycle");
    // mov %rax, 0, 8, 16, 24(%rdi)
    let stores: Vec<u8> = [0, 8, 16, 24].iter().flat_map(|&at| [0x48, 0x89, 0x47, at]).collect();
    assert_near(cycles(&stores, four(true, 8)), 2.0, "two stores to one line a cycle");
    assert_near(cycles(&stores, four(true, 64)), 4.0, "a store to another line a cycle");
    let pairs = |_| vec![(true, 0), (true, 8), (true, 64), (true, 72)];
    assert_near(cycles(&stores, pairs), 2.0, "two lines, two stores each");
}

#[test]
fn an_address_of_three_parts_or_with_a_scale_takes_a_cycle_longer() {
    let chain = |code: &[u8]| cycles(code, |_| vec![(false, 0)]);
    assert_near(chain(&[0x48, 0x8b, 0x04, 0x03]), 4.0, "(%rbx,%rax)");
    assert_near(chain(&[0x48, 0x8b, 0x40, 8]), 4.0, "8(%rax)");
    assert_near(chain(&[0x48, 0x8b, 0x44, 0x03, 8]), 5.0, "8(%rbx,%rax)");
    assert_near(chain(&[0x48, 0x8b, 0x04, 0xc3]), 5.0, "(%rbx,%rax,8)");
    assert_near(chain(&[0x48, 0x63, 0x00]), 5.0, "movslq (%rax), which extends a sign");
}

/// The front end takes eight instructions a cycle up to a taken branch, and six are dispatched.
#[test]
fn a_taken_branch_ends_a_cycle_of_the_front_end_and_none_of_dispatch() {
    // add $1 to %rax, %rdx, %rbx, %rsi in turn, and one for dec and jne.
    let add = |number: usize| [0x48, 0x83, [0xc0, 0xc2, 0xc3, 0xc6][number % 4], 1];
    // nop
    let fill = |count: usize| vec![0x90; count];
    let of = |fillers: usize| computing(&fill(fillers));
    assert_near(of(7), 8.0 / 6.0, "eight instructions, six a cycle");
    assert_near(of(9), 2.0, "ten, of which the front end takes two in a second cycle");
    assert_near(of(11), 2.0, "twelve");
    assert_near(computing(&(0..4).flat_map(add).collect::<Vec<u8>>()), 1.25, "five additions, four a cycle");
}

#[test]
fn atomic_operations_wait_for_each_other_and_nothing_else_waits() {
    // lock addq $1, (%rdi)
    let atomic = [0xf0, 0x48, 0x83, 0x07, 1];
    let one = |body: &[u8]| cycles(body, |_| vec![(false, 0), (true, 0)]);
    assert_near(one(&atomic), 8.0, "one every eight cycles");
    // add $1, %rax, twenty times
    let chain = [0x48, 0x83, 0xc0, 1].repeat(20);
    assert_near(one(&[&atomic[..], &chain].concat()), 20.0, "beside a chain of twenty additions");
}

#[test]
fn a_store_is_handed_over_at_once_only_if_that_is_foreseen() {
    // addq $1, (%rdi)
    let counter = [0x48, 0x83, 0x07, 1];
    assert_near(cycles(&counter, |_| vec![(false, 0), (true, 0)]), 2.0, "a counter in memory");
    // add $1, %rax; mov %rax, (%rbx); mov %rax, (%rsi); mov (%rdi), %rax
    let two = [0x48, 0x83, 0xc0, 1, 0x48, 0x89, 0x03, 0x48, 0x89, 0x06, 0x48, 0x8b, 0x07];
    let of = |which: fn(u64) -> u64| {
        cycles(&two, move |round| {
            let at = round % 7 * 16;
            vec![(true, at), (true, at + 8), (false, at + 8 * which(round))]
        })
    };
    // Two stores take a cycle of the drain.
    assert_near(of(|_| 0), 1.0, "always the first of two stores, wherever they go");
    assert_near(of(|round| round.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63), 7.0, "one of two by chance");
    // mov %rax, (%rdi); mov (%rdi), %rax
    let word = [0x48, 0x89, 0x07, 0x48, 0x8b, 0x07];
    assert_near(cycles(&word, |_| vec![(true, 0), (false, 0)]), 1.0, "a store that a load gets leaves alone");
    // movsd (%rdi), %xmm0; addsd %xmm1, %xmm0; movsd %xmm0, (%rdi)
    let sum = [0xf2, 0x0f, 0x10, 0x07, 0xf2, 0x0f, 0x58, 0xc1, 0xf2, 0x0f, 0x11, 0x07];
    assert_near(cycles(&sum, |_| vec![(false, 0), (true, 0)]), 8.0 + 3.0, "a sum of doubles in memory");
}

/// On Zen 4 they are 7, 12, 9, 11.5 and 11.
#[test]
fn vectors_are_far_from_general_registers() {
    // movd %eax, %xmm0; movd %xmm0, %eax
    let there_and_back = [0x66, 0x0f, 0x6e, 0xc0, 0x66, 0x0f, 0x7e, 0xc0];
    assert_near(cycles(&there_and_back, |_| vec![]), 6.0, "there and back");
    // cvtsi2sd %eax, %xmm0; cvttsd2si %xmm0, %eax
    let converted = [0xf2, 0x0f, 0x2a, 0xc0, 0xf2, 0x0f, 0x2c, 0xc0];
    assert_near(cycles(&converted, |_| vec![]), 13.0, "a number there and back");
    // movups (%rsi,%rax), %xmm0; movd %xmm0, %eax
    let loaded = [0x0f, 0x10, 0x04, 0x06, 0x66, 0x0f, 0x7e, 0xc0];
    assert_near(cycles(&loaded, |_| vec![(false, 0)]), 9.0, "a load of a vector");
    // movq %rax, %xmm0; movq %xmm0, (%rsi); mov (%rsi), %rax
    let by_vector = [0x66, 0x48, 0x0f, 0x6e, 0xc0, 0x66, 0x0f, 0xd6, 0x06, 0x48, 0x8b, 0x06];
    assert_near(
        cycles(&by_vector, |_| vec![(true, 0), (false, 0)]),
        10.0,
        "the store of a vector is not foreseen",
    );
    // mov %rax, (%rsi); movsd (%rsi), %xmm0; movq %xmm0, %rax
    let to_vector = [0x48, 0x89, 0x06, 0xf2, 0x0f, 0x10, 0x06, 0x66, 0x48, 0x0f, 0x7e, 0xc0];
    assert_near(cycles(&to_vector, |_| vec![(true, 0), (false, 0)]), 10.0, "nor the load of one");
}

/// A load of other bytes than were stored waits for the forwarding, and one of more bytes until the store has left the store buffer.
#[test]
fn a_load_of_more_than_was_stored_waits_for_the_cache() {
    let bytes = |store: bool, at: u64, count: u32| match store {
        true => Access::store(VirtAddr(BASE + at), count),
        false => Access::load(VirtAddr(BASE + at), count),
    };
    let of = |body: &[u8], accesses: [(bool, u64, u32); 3]| {
        cycles_of_loop(&zen3(), 4096, &around(body), |_| {
            accesses
                .iter()
                .filter(|one| one.2 > 0)
                .map(|&(store, at, count)| bytes(store, at, count))
                .collect()
        })
    };
    // mov %rax, (%rdi); movzbl (%rdi), %eax; add $1, %rax
    let part = [0x48, 0x89, 0x07, 0x0f, 0xb6, 0x07, 0x48, 0x83, 0xc0, 1];
    assert_near(of(&part, [(true, 0, 8), (false, 0, 1), (false, 0, 0)]), 7.0, "a byte of eight");
    // mov %eax, (%rdi); mov %edx, 4(%rdi); mov (%rdi), %rax; add $1, %rax
    let halves = [0x89, 0x07, 0x89, 0x57, 4, 0x48, 0x8b, 0x07, 0x48, 0x83, 0xc0, 1];
    let cycles = of(&halves, [(true, 0, 4), (true, 4, 4), (false, 0, 8)]);
    assert!((19.0..21.0).contains(&cycles), "{cycles}: 18.7 on Zen 3, 20.5 on Zen 4");
    // mov %eax, (%rdi); movups (%rdi), %xmm0; movd %xmm0, %eax
    let vector = [0x89, 0x07, 0x0f, 0x10, 0x07, 0x66, 0x0f, 0x7e, 0xc0];
    let cycles = of(&vector, [(true, 0, 4), (false, 0, 16), (false, 0, 0)]);
    assert_near(cycles, 24.0, "a vector of which a word was stored");
    // movb %al, (%rdi); mov (%rdi), %rax; add $1, %rax
    let cycles = of(
        &[0x88, 0x07, 0x48, 0x8b, 0x07, 0x48, 0x83, 0xc0, 1],
        [(true, 0, 1), (false, 0, 8), (false, 0, 0)],
    );
    assert!((17.0..26.0).contains(&cycles), "{cycles}: 25.5 on Zen 3");
}

/// mov %rdi, %rbx, so many times: copies, which only take their slots.
fn copies(count: usize) -> Vec<u8> {
    [0x48, 0x89, 0xfb].repeat(count)
}

/// Slots of some instructions with these accesses, beside twelve copies and what ends the loop.
fn slots(body: &[u8], accesses: &'static [(bool, u64)]) -> f64 {
    let body = [&copies(12)[..], body].concat();
    // Each round goes elsewhere, so that none waits for the one before.
    let at = |round: u64| move |&(store, at): &(bool, u64)| (store, round % 8 * 512 + at);
    6.0 * cycles(&body, |round| accesses.iter().map(at(round)).collect()) - 13.0
}

#[test]
fn what_a_core_does_in_two_steps_takes_two_slots() {
    let (load, store): (&[_], &[_]) = (&[(false, 0)], &[(true, 0)]);
    assert_near(slots(&[0x48, 0x89, 0x07], store), 1.0, "mov %rax, (%rdi)");
    assert_near(slots(&[0x48, 0x03, 0x07], load), 1.0, "add (%rdi), %rax");
    assert_near(slots(&[0x48, 0x89, 0x04, 0x37], store), 2.0, "mov %rax, (%rdi,%rsi)");
    assert_near(slots(&[0x48, 0x8b, 0x04, 0x37], load), 1.0, "mov (%rdi,%rsi), %rax");
    assert_near(slots(&[0x48, 0x83, 0x07, 1], &[(false, 0), (true, 0)]), 2.0, "addq $1, (%rdi)");
    assert_near(slots(&[0xff, 0x36], &[(false, 0), (true, 64)]), 2.0, "pushq (%rsi)");
    assert_near(slots(&[0x48, 0x8d, 0x44, 0x37, 8], &[]), 2.0, "lea 8(%rdi,%rsi), %rax");
    assert_near(slots(&[0x48, 0x8d, 0x04, 0x37], &[]), 1.0, "lea (%rdi,%rsi), %rax");
    // movq %rax, %xmm0; movq %xmm0, %rax; ucomisd %xmm0, %xmm1
    assert_near(slots(&[0x66, 0x48, 0x0f, 0x6e, 0xc0], &[]), 2.0, "to a vector");
    assert_near(slots(&[0x66, 0x48, 0x0f, 0x7e, 0xc0], &[]), 1.0, "from a vector");
    assert_near(slots(&[0x66, 0x0f, 0x2e, 0xc8], &[]), 2.0, "to the flags");
    assert_near(slots(&[0x48, 0x83, 0xec, 8], &[]), 2.0, "sub $8, %rsp");
    assert_near(slots(&[0x48, 0x89, 0xf8, 0x48, 0xf7, 0xe6], &[]), 3.0, "mov %rdi, %rax; mul %rsi");
    assert_near(slots(&[0x48, 0x6b, 0xc6, 3], &[]), 1.0, "imul $3, %rsi, %rax");
    assert_near(slots(&[0x48, 0x93], &[]), 2.0, "xchg %rax, %rbx");
    assert_near(slots(&[0x58], load), 1.0, "pop %rax");
    // A comparison and je, which is not taken.
    assert_near(slots(&[0x48, 0x39, 0xc6, 0x74, 64], &[]), 1.0, "cmp %rax, %rsi; je");
    assert_near(slots(&[0x48, 0x39, 0x07, 0x74, 64], load), 2.0, "cmp %rax, (%rdi); je");
    assert_near(slots(&[0x48, 0x39, 0x04, 0x37, 0x74, 64], load), 2.0, "cmp %rax, (%rdi,%rsi); je");
    let modify: &[_] = &[(false, 0), (true, 0)];
    assert_near(slots(&[0x48, 0x83, 0x2f, 1, 0x74, 64], modify), 3.0, "subq $1, (%rdi); je");
}

#[test]
fn a_burst_of_operations_or_of_accesses_is_dispatched_four_a_cycle() {
    let burst = |body: &[u8], count: usize| [body.repeat(count), copies(12)].concat();
    // Twelve leave two slots of the third cycle to copies, of which the others and what ends the loop take two more cycles.
    let lea = [0x48, 0x8d, 0x46, 8];
    assert_near(computing(&burst(&lea, 12)), 5.0, "lea 8(%rsi), %rax, and copies");
    let mixed = [&lea[..], &[0x48, 0x8b, 0x17]].concat();
    let loads = |count: usize| move |_| vec![(false, 0); count];
    assert_near(
        cycles(&burst(&[0x48, 0x8b, 0x17], 12), loads(12)),
        4.75,
        "loads, some of which enter beside what ends the loop",
    );
    assert_near(cycles(&burst(&mixed, 6), loads(6)), 25.0 / 6.0, "six of each, and copies");
}

#[test]
fn loads_and_stores_share_units() {
    // mov 0, 8, 16(%rdi) to %rdx, %rbx, %rax; mov %rsi, 24(%rdi)
    let three = [0x48, 0x8b, 0x17, 0x48, 0x8b, 0x5f, 8, 0x48, 0x8b, 0x47, 16];
    let store = [0x48, 0x89, 0x77, 24];
    let loads = [(false, 0), (false, 8), (false, 16)];
    let all = [&loads[..], &[(true, 24)]].concat();
    assert_near(cycles(&three, |_| loads.to_vec()), 1.0, "three loads a cycle");
    assert_near(cycles(&[&three[..], &store].concat(), |_| all.clone()), 4.0 / 3.0, "three of both a cycle");
}

/// dec %rcx; jne to the beginning, behind more bytes than [`around`] takes.
fn around_much(body: &[u8]) -> Vec<u8> {
    let back = -(body.len() as i32 + 9);
    [body, &[0x48, 0xff, 0xc9, 0x0f, 0x85], &back.to_le_bytes()].concat()
}

/// Two loads miss, which both wait for those of the round before; between them, instructions wait for the first one. The loads overlap while
/// there are places to wait.
#[test]
fn dispatch_stops_where_no_scheduler_has_a_place() {
    let misses = |spec: &MachineSpec, wait: &[u8], count: usize| {
        // mov (%rdi,%rsi), %rdi; the instructions; mov (%rsi), %rsi
        let body = [&[0x48, 0x8b, 0x3c, 0x37][..], &wait.repeat(count), &[0x48, 0x8b, 0x36]].concat();
        let cycles = cycles_of_loop(spec, 4 * ROUNDS * LINE, &around_much(&body), |round| {
            [2 * round, 2 * round + 1].map(|line| Access::load(VirtAddr(BASE + line * LINE), 8)).to_vec()
        });
        let memory = 110_000.0 / spec.core.cycle_ps as f64;
        (cycles / memory).round()
    };
    let zen3 = changed(zen3(), |spec| {
        spec.hierarchy.caches.iter_mut().for_each(|cache| cache.prefetch = None);
    });
    let without = changed(zen3.clone(), |spec| {
        dataflow(spec).have_schedulers_own_units = false;
        dataflow(spec).scheduler = 0;
    });
    // add %rdi, %rax
    let add = [0x48, 0x01, 0xf8];
    assert_eq!([80, 110].map(|count| misses(&zen3, &add, count)), [1.0, 2.0], "96 places for operations");
    assert_eq!(misses(&without, &add, 110), 1.0, "as many as the window");
    // rol $3, %rdi; imul $3, %rdi, %rax
    let (rotate, multiply) = ([0x48, 0xc1, 0xc7, 3], [0x48, 0x6b, 0xc7, 3]);
    assert_eq!([44, 52].map(|count| misses(&zen3, &rotate, count)), [1.0, 2.0], "two units shift");
    assert_eq!([20, 28].map(|count| misses(&zen3, &multiply, count)), [1.0, 2.0], "one multiplies");
    let shared = changed(zen3.clone(), |spec| dataflow(spec).have_schedulers_own_units = false);
    assert_eq!(misses(&shared, &multiply, 28), 1.0, "of all units");
    // paddq %xmm1, %xmm0, behind movq %rdi, %xmm0, which waits with vectors, too
    let vectors = |count: usize| {
        let add = [0x66, 0x0f, 0xd4, 0xc1].repeat(count);
        misses(&zen3, &[&[0x66, 0x48, 0x0f, 0x6e, 0xc7][..], &add].concat(), 1)
    };
    assert_eq!([110, 140].map(vectors), [1.0, 2.0], "128 places for operations on vectors");
    // The same, and movq %rsi, %xmm5; movq %xmm5, %rsi behind them, for which the second load waits: they begin when they have left the queue.
    let behind = |count: usize| {
        let add = [0x66, 0x0f, 0xd4, 0xc1].repeat(count);
        let through = [0x66, 0x48, 0x0f, 0x6e, 0xee, 0x66, 0x48, 0x0f, 0x7e, 0xee];
        misses(&zen3, &[&[0x66, 0x48, 0x0f, 0x6e, 0xc7][..], &add, &through].concat(), 1)
    };
    assert_eq!([55, 75].map(behind), [1.0, 2.0], "64 of the 128 are in the queue");
    // mov %rdi, %rax: a copy waits nowhere.
    assert_eq!(misses(&zen3, &[0x48, 0x89, 0xf8], 200), 1.0, "copies");
}

/// Of loads that name another register than the store, a core remembers twelve.
#[test]
fn a_core_foresees_as_many_loads_as_it_remembers() {
    // mov %rax, 8 n(%rdi); mov 8 n(base), %rax
    let of = |base: u8, links: u8| {
        let link = |number: u8| [0x48, 0x89, 0x47, 8 * number, 0x48, 0x8b, 0x40 | base, 8 * number];
        let body: Vec<u8> = (0..links).flat_map(link).collect();
        let each = |number: u8| [(true, 8 * u64::from(number)), (false, 8 * u64::from(number))];
        cycles(&body, |_| (0..links).flat_map(each).collect()) / f64::from(links)
    };
    let (same, other) = (7, 6);
    assert_near(of(same, 14), 1.0, "the same register: a store that a load gets leaves alone");
    assert_near(of(other, 10), 1.0, "another one, ten loads");
    assert_near(of(other, 14), 6.0, "fourteen");
}
