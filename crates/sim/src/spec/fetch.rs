//! Instruction fetch of a machine file.

use super::geometry::{Misfit, check_cache};
use super::key::MAX_WAYS;
use super::section::{Resolver, Table, section};
use super::settings::TierSpec;
use super::tlb::{self, ARRAYS, TlbArraySpec, TlbLevelSpec};

/// The fetch of instructions by a core.
#[derive(Clone, Debug, PartialEq)]
pub struct FetchSpec {
    /// The first cache for instructions (timed runs).
    pub cache: InstructionCacheSpec,
    /// Lines that the front end may be ahead of the instructions that it hands on (timed runs).
    pub ahead: u32,
    /// The array of the first TLB level for instructions.
    pub tlb: TlbArraySpec,
}

section! {
    /// The first cache for instructions.
    pub struct InstructionCacheSpec {
        bytes: u64 = "size" bytes(64, 1 << 30) or "\"32KiB\"", "capacity; size / (64 B * ways) is a whole number of sets";
        ways: u32 = "ways" integer(1, MAX_WAYS) or "8", "ways of a set";
    }
}

section! {
    /// Instruction fetch.
    pub(super) fn fetch(table, resolver, levels: Option<&[TlbLevelSpec]>, tier: Option<&TierSpec>) -> FetchSpec;
    pub(super) const FETCH {
        cache = "cache" always(InstructionCacheSpec::KEYS), "the first cache for instructions, each core's own; a miss goes to the second level of [caches] (timed runs)";
        ahead = "ahead" integer(1, 1_024) or "8", "lines of 64 bytes that the front end may be ahead of the instructions that it hands on: so much of a miss is hidden (timed runs)";
        tlb = "tlb" any_of(&[], &ARRAYS), "the first TLB level for instructions, of all page sizes; a miss goes to the second level of [tlb]";
    }
    {
        let cache = instruction_cache(cache?, resolver);
        let Some(own) = tlb? else {
            let help = "add [fetch.tlb.set-associative], or write fetch = \"none\"";
            return resolver.refuse_section(table, "instruction fetch without a TLB", help);
        };
        let tlb = tlb::whole_array("fetch.tlb", own, resolver);
        let levels = levels?;
        if levels.is_empty() {
            let help = "give the machine a first TLB level, or write fetch = \"none\"";
            return resolver.refuse_section(table, "instruction fetch, but no TLB level", help);
        }
        if levels.iter().any(TlbLevelSpec::is_exclusive) {
            let message = "instruction fetch above an exclusive TLB level: a page may be in two arrays above it";
            return resolver.refuse_section(table, message, "write inclusion = \"neither\" there, or fetch = \"none\"");
        }
        if tier.is_some() {
            let message = "instruction fetch, but memory is a cache over flash, in which instructions are not looked for";
            return resolver.refuse_section(table, message, "write fetch = \"none\"");
        }
        Some(FetchSpec { cache: cache?, ahead: ahead?, tlb: tlb? })
    }
}

fn instruction_cache(table: &Table, resolver: &mut Resolver<'_>) -> Option<InstructionCacheSpec> {
    if let Err(Misfit { message, help }) = check_cache(table.bytes("size")?, table.integer("ways")?.into()) {
        return resolver.refuse(format!("cache `fetch.cache`: {message}"), help, table, &["size", "ways"]);
    }
    InstructionCacheSpec::resolve(table, resolver)
}
