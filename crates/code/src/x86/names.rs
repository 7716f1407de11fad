//! The classes of instructions by their names.

use std::sync::LazyLock;

use iced_x86::Mnemonic;

use crate::class::Class;

/// How the name of an instruction decides on its class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rule {
    /// All forms have this class.
    Is(Class),
    /// A form with an operand in memory has another class than one with registers only.
    Forms { register: Class, memory: Class },
    /// A register is copied, loaded or stored.
    Copies,
    /// The result is zero if both sources are the same register.
    Clears(Class),
    /// The result is all ones if both sources are the same register.
    Fills(Class),
}

use Class::{
    BitScan, Branch, Condition, Convert, Cross, Crypto, Divide64, Fence, FloatAdd, FloatCompare, FloatDivide,
    FloatMultiply, FloatMultiplyAdd, FloatSquareRoot, Integer, Lea, LoadStore, Multiply, Nop, Shift, Shuffle,
    System, VectorInteger, VectorMove, VectorMultiply, X87, X87Divide, Zero,
};
use Rule::{Clears, Copies, Fills, Forms, Is};

/// The names of each class, without the `v` of AVX. A name with a star stands for all that begin so; the first row that fits counts.
///
/// What is not here goes by what it writes: a vector or a mask, general registers, nothing.
///
/// Which operations share a unit: Fog, "Instruction tables" (2022), for Skylake and Zen 3.
const NAMES: &[(Rule, &str)] = &[
    (Is(Nop), "nop reservednop endbr32 endbr64 prefetch* cldemote gatherpf* scatterpf* zeroupper"),
    (Is(Zero), "zeroall"),
    (Is(Fence), "mfence lfence sfence pause clflush clflushopt clwb"),
    (Is(System), "in out int* popf popfd popfq cpuid rd* wr* xgetbv xsetbv xsave* xrstor* fxsave* fxrstor*"),
    (Is(System), "ldmxcsr stmxcsr xbegin xend xabort xtest incssp* saveprevssp rstorssp setssbsy clrssbsy"),
    (Is(System), "sgdt sidt sldt smsw str lar lsl lfs lgs lss verr verw xstore* xcrypt* xsha* montmul"),
    (
        Is(System),
        "monitorx mwaitx umonitor umwait tpause enqcmd* encodekey* ptwrite enclu vmfunc testui llwpcb slwpcb lwp* loadiwkey",
    ),
    // General registers.
    (Copies, "mov"),
    (Is(Integer), "cld std not movbe"),
    (Forms { register: Integer, memory: LoadStore }, "movzx movsx movsxd"),
    (Clears(Integer), "xor sub"),
    (Is(LoadStore), "push pushf pushfd pushfq pop xlatb movnt* movdiri movdir64b"),
    (Is(Lea), "lea"),
    (Is(Shift), "sal shl shr sar rol ror rcl rcr shld shrd shlx shrx sarx rorx"),
    (Is(Multiply), "mul imul mulx crc32 pdep pext"),
    (Is(Divide64), "div idiv"),
    (Is(BitScan), "bsf bsr tzcnt lzcnt popcnt"),
    (Is(Condition), "cmov* set*"),
    (Is(Branch), "j* call ret loop*"),
    // Floating-point numbers in vectors.
    (Is(FloatAdd), "addps addpd addss addsd addph addsh subps subpd subss subsd subph subsh"),
    (Is(FloatAdd), "addsubps addsubpd haddps haddpd hsubps hsubpd pfadd pfsub pfsubr pfacc pfnacc pfpnacc"),
    (
        Is(FloatMultiply),
        "mulps mulpd mulss mulsd mulph mulsh rcpps rcpss rcpph rcpsh rcp14* rcp28* rsqrt* scalef*",
    ),
    (Is(FloatMultiply), "fmulc* fcmulc* exp2* pfmul pfrcp* pfrsq*"),
    (
        Is(FloatMultiplyAdd),
        "fmadd* fmsub* fnmadd* fnmsub* fcmadd* 4fmadd* 4fnmadd* dpps dppd dpbf16ps tdp* tcmm*",
    ),
    (Is(FloatDivide), "divps divpd divss divsd divph divsh"),
    (Is(FloatSquareRoot), "sqrtps sqrtpd sqrtss sqrtsd sqrtph sqrtsh"),
    (Is(FloatCompare), "cmpps cmppd cmpss cmpsd cmpph cmpsh"),
    (
        Is(FloatCompare),
        "maxps maxpd maxss maxsd maxph maxsh minps minpd minss minsd minph minsh range* fpclass*",
    ),
    (Is(FloatCompare), "pfcmp* pfmax pfmin"),
    (
        Is(Convert),
        "cvt* bcstne* roundps roundpd roundss roundsd rndscale* reduce* getexp* getmant* fixupimm* frcz*",
    ),
    (Is(Convert), "pf2id pf2iw pi2fd pi2fw"),
    // Copies of vectors, and between vectors and general registers.
    (Copies, "movaps movapd movups movupd movdqa* movdqu*"),
    (Forms { register: VectorMove, memory: LoadStore }, "movss movsd movsh"),
    (Is(VectorMove), "movdq2q movq2dq"),
    (Is(LoadStore), "lddqu gather* pgather* scatter* pscatter* maskmov* pmaskmov* tileload* tilestored"),
    (Forms { register: Cross, memory: LoadStore }, "movd movq movw kmov*"),
    (Forms { register: Cross, memory: Shuffle }, "pinsr*"),
    (
        Is(Cross),
        "comiss comisd comish ucomis* pextr* extractps movmsk* pmovmskb ptest testps testpd kortest* ktest*",
    ),
    // Integers in vectors.
    (
        Clears(VectorInteger),
        "pxor pxord pxorq xorps xorpd psubb psubw psubd psubq pcmpgtb pcmpgtw pcmpgtd pcmpgtq",
    ),
    (Fills(VectorInteger), "pcmpeqb pcmpeqw pcmpeqd pcmpeqq"),
    (Is(Shuffle), "pmultishiftqb psll* psrl* psra* pshl* pshr* prol* pror* prot* pshld* pshrd*"),
    (Is(VectorInteger), "pmovm2* pmovb2m pmovw2m pmovd2m pmovq2m"),
    (Is(VectorMultiply), "pmul* pmadd* pmacs* pmadcs* psadbw mpsadbw dbpsadbw pdp* p4dp* phminposuw gf2p8*"),
    (Is(Crypto), "aes* sha1* sha256* sha512* sm3* sm4* pclmulqdq pcmpestr* pcmpistr*"),
    (Forms { register: Shuffle, memory: LoadStore }, "broadcast* pbroadcast*"),
    (
        Is(Shuffle),
        "pshuf* shuf* unpck* punpck* pack* palignr align* perm* pperm pmov* pswapd insert* extract*",
    ),
    (Is(Shuffle), "movddup movshdup movsldup movhlps movlhps movhps movhpd movlps movlpd pslldq psrldq"),
    (Is(Shuffle), "compress* expand* pcompress* pexpand*"),
    // The oldest unit; all names with an F that are left.
    (Is(X87Divide), "fdiv* fidiv* fsqrt fprem* fsin fsincos fcos fptan fpatan f2xm1 fyl2x* fbld fbstp"),
    (Is(X87), "f* wait emms"),
];

/// Returns the rule of a name, or none if the written registers decide.
pub(super) fn rule(mnemonic: Mnemonic) -> Option<Rule> {
    static RULES: LazyLock<Box<[Option<Rule>]>> = LazyLock::new(|| {
        Mnemonic::values().map(|mnemonic| find(&format!("{mnemonic:?}").to_ascii_lowercase())).collect()
    });
    RULES[mnemonic as usize]
}

fn find(name: &str) -> Option<Rule> {
    let row = |name| {
        NAMES.iter().find(|(_, words)| words.split(' ').any(|word| fits(word, name))).map(|&(rule, _)| rule)
    };
    row(name).or_else(|| row(name.strip_prefix('v')?))
}

fn fits(word: &str, name: &str) -> bool {
    match word.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => word == name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_of_the_table_is_the_name_of_an_instruction() {
        let names: Vec<String> =
            Mnemonic::values().map(|mnemonic| format!("{mnemonic:?}").to_ascii_lowercase()).collect();
        for word in NAMES.iter().flat_map(|(_, words)| words.split(' ')) {
            let is_used = names
                .iter()
                .any(|name| fits(word, name) || name.strip_prefix('v').is_some_and(|name| fits(word, name)));
            assert!(is_used, "{word}");
        }
    }
}
