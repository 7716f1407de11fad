//! The machines that come with the program: `machines/*.toml`, embedded.

/// A machine file in the program.
pub(super) struct Builtin {
    pub(super) name: &'static str,
    /// Its path in the repository, for messages.
    pub(super) label: &'static str,
    pub(super) text: &'static str,
}

macro_rules! machine {
    ($name:literal) => {
        Builtin {
            name: $name,
            label: concat!("machines/", $name, ".toml"),
            text: include_str!(concat!("../../../../machines/", $name, ".toml")),
        }
    };
}

/// All of them, in the order of lists.
pub(super) static ALL: &[Builtin] = &[
    machine!("x86-64"),
    machine!("x86-64-thp"),
    machine!("x86-64-la57"),
    machine!("x86-64-guest"),
    machine!("x86-64-guest-thp"),
    machine!("sapphire-rapids"),
    machine!("zen3"),
    machine!("zen4"),
    machine!("neoverse-v2"),
    machine!("apple-m1"),
    machine!("riscv-sv57"),
    machine!("riscv-sv39"),
    machine!("sapphire-rapids-guest"),
    machine!("zen3-guest"),
    machine!("zen4-guest"),
    machine!("neoverse-v2-guest"),
    machine!("apple-m1-guest"),
    machine!("riscv-sv57-guest"),
    machine!("riscv-sv39-guest"),
    machine!("x86-64-hashed-sets"),
    machine!("x86-64-victim"),
    machine!("x86-64-coalesced"),
    machine!("x86-64-tlb-prefetch"),
    machine!("x86-64-exclusive-tlb"),
    machine!("x86-64-store-tlb"),
    machine!("x86-64-shared-tlb"),
    machine!("optane"),
    machine!("ext4-dax"),
    machine!("ctfs"),
    machine!("mosaic-4"),
    machine!("mosaic-8"),
    machine!("mosaic-16"),
    machine!("mosaic-32"),
    machine!("mosaic-64"),
    machine!("linux-swap"),
    machine!("lru-swap"),
    machine!("mosaic-swap"),
    machine!("linux-zram"),
    machine!("linux-nvme"),
    machine!("flash-dram-only"),
    machine!("astriflash"),
    machine!("astriflash-ideal"),
    machine!("astriflash-fifo"),
    machine!("astriflash-age"),
    machine!("astriflash-no-partition"),
    machine!("flash-sync"),
    machine!("os-swap"),
    machine!("rocket"),
    machine!("rocket-swap"),
    machine!("rocket-accelerator"),
    machine!("gem5-plain"),
    machine!("gem5-mosaic-4"),
    machine!("gem5-mosaic-8"),
    machine!("gem5-mosaic-16"),
    machine!("gem5-mosaic-32"),
    machine!("gem5-mosaic-64"),
    machine!("gem5-plain-full"),
    machine!("gem5-mosaic-4-full"),
    machine!("gem5-mosaic-8-direct"),
    machine!("me-hpt-radix"),
    machine!("me-hpt-radix-thp"),
    machine!("hashed-open-addressing"),
    machine!("hashed-chained"),
    machine!("ecpt"),
    machine!("ecpt-thp"),
    machine!("ecpt-fragmented"),
    machine!("me-hpt"),
    machine!("me-hpt-thp"),
    machine!("me-hpt-fragmented"),
];

/// The machine of that name.
pub(super) fn find(name: &str) -> Option<&'static Builtin> {
    ALL.iter().find(|machine| machine.name == name)
}
