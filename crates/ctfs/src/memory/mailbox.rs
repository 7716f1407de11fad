//! The requests of a client to the owner, and the answers, in memory that both map.
//!
//! ```text
//!   client                                  owner
//!   words and texts  -> state: asked   ->   does it
//!                    <- state: answered <-  words and text
//! ```
//!
//! Both look at the other's word for a while before they sleep: a call takes half a microsecond then, where a request through the kernel
//! takes twenty. A client has one mailbox and asks for one thing at a time. Neither side believes the other: what a message says of itself is
//! looked at.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::memory::gate::CLIENTS;

/// Words of a message.
pub(crate) const WORDS: usize = 24;
/// Bytes of a message's texts: two paths.
pub(crate) const TEXT_BYTES: usize = 8_192;

/// How long a waiting thread looks before it sleeps, where that has helped before, and where it has not: others need the processor then, and
/// a thread that has used it up by looking gets it later.
const LOOKS: Duration = Duration::from_micros(50);
const SHORT_LOOKS: Duration = Duration::from_micros(2);
/// Waits that are short at most, behind one that did not help.
const MOST_SHORT: u32 = 63;
/// Looks between two at the clock.
const LOOKS_AT_ONCE: u32 = 16;
/// How long a client sleeps before it looks whether the owner is there.
const SLEEP: Duration = Duration::from_millis(50);

const IDLE: u32 = 0;
const ASKED: u32 = 1;
const ANSWERED: u32 = 2;

/// The system calls that let a thread wait for a word: the process decides which code makes them.
#[derive(Clone, Copy, Debug)]
pub struct Sleep {
    /// Sleeps while the word is so, for a time at most.
    pub wait: fn(&AtomicU32, u32, Duration),
    /// Wakes the thread that sleeps there.
    pub wake: fn(&AtomicU32),
}

impl Sleep {
    /// As any process makes them.
    pub(crate) fn plain() -> Self {
        use rustix::thread::futex;
        Self {
            wait: |word, value, time| {
                let time = rustix::time::Timespec { tv_sec: 0, tv_nsec: time.as_nanos() as i64 };
                // Woken, too late or too early: the waiting thread looks again.
                let _ = futex::wait(word, futex::Flags::empty(), value, Some(&time));
            },
            wake: |word| {
                let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
            },
        }
    }
}

/// The mailbox of one client.
#[repr(C, align(64))]
pub(crate) struct Mailbox {
    state: AtomicU32,
    /// Whether the client sleeps.
    is_asleep: AtomicU32,
    patience: Patience,
    words: [AtomicU64; WORDS],
    texts: [AtomicU64; TEXT_BYTES / 8],
}

/// The bell of all mailboxes: it tells the owner which clients have asked.
#[repr(C, align(64))]
pub(crate) struct Bell {
    /// A bit for each client that has asked since the owner looked last.
    asked: AtomicU64,
    /// How often a client has woken the owner.
    rings: AtomicU32,
    /// Whether the owner sleeps.
    is_asleep: AtomicU32,
    /// There is one processor: a thread that looks at a word keeps the other from storing it.
    is_alone: AtomicU32,
    patience: Patience,
}

/// Whether it helps to look before sleeping, as far as one side knows.
struct Patience {
    /// Waits that are to be short.
    short: AtomicU32,
    /// How many these were behind the last long one that did not help.
    last: AtomicU32,
}

impl Patience {
    #[cfg(test)]
    const fn new() -> Self {
        Self { short: AtomicU32::new(0), last: AtomicU32::new(0) }
    }

    /// How long the next wait looks.
    fn time(&self) -> Duration {
        let short = self.short.load(Ordering::Relaxed);
        if short == 0 {
            return LOOKS;
        }
        self.short.store(short - 1, Ordering::Relaxed);
        SHORT_LOOKS
    }

    fn has_helped(&self, time: Duration, helped: bool) {
        if helped {
            self.last.store(0, Ordering::Relaxed);
            self.short.store(0, Ordering::Relaxed);
        } else if time == LOOKS {
            let next = (self.last.load(Ordering::Relaxed) * 2 + 1).min(MOST_SHORT);
            self.last.store(next, Ordering::Relaxed);
            self.short.store(next, Ordering::Relaxed);
        }
    }
}

/// Looks until something is so, for a while; whether it is.
#[inline]
fn look(bell: &Bell, patience: &Patience, is_so: impl Fn() -> bool) -> bool {
    if is_so() {
        return true;
    }
    if bell.is_alone.load(Ordering::Relaxed) != 0 {
        return false;
    }
    let time = patience.time();
    // Many answers are there before the clock has been read.
    let mut begun = None;
    let helped = loop {
        if (0..LOOKS_AT_ONCE).any(|_| {
            std::hint::spin_loop();
            is_so()
        }) {
            break true;
        }
        if begun.get_or_insert_with(Instant::now).elapsed() > time {
            break false;
        }
    };
    patience.has_helped(time, helped);
    helped
}

fn store_text(texts: &[AtomicU64], text: &[u8]) {
    for (word, part) in texts.iter().zip(text.chunks(8)) {
        let mut bytes = [0; 8];
        bytes[..part.len()].copy_from_slice(part);
        word.store(u64::from_le_bytes(bytes), Ordering::Relaxed);
    }
}

fn load_text(texts: &[AtomicU64], text: &mut [u8]) {
    for (word, part) in texts.iter().zip(text.chunks_mut(8)) {
        part.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes()[..part.len()]);
    }
}

/// Words that a text takes.
const fn words_of(bytes: usize) -> usize {
    bytes.div_ceil(8)
}

impl Mailbox {
    /// The client that had it is gone.
    pub(crate) fn clear(&self) {
        self.state.store(IDLE, Ordering::SeqCst);
        self.is_asleep.store(0, Ordering::SeqCst);
    }

    /// The client's: asks, and waits for the answer's words; nothing if the owner is gone, or the texts have no room.
    pub(crate) fn ask(
        &self,
        (bell, client): (&Bell, usize),
        words: &mut [u64; WORDS],
        texts: [&[u8]; 2],
        sleep: Sleep,
        is_owner_gone: impl Fn() -> bool,
    ) -> Option<()> {
        self.post((bell, client), words, texts, sleep, &is_owner_gone)?;
        self.wait(bell, sleep, &is_owner_gone)?;
        for (value, word) in words.iter_mut().zip(&self.words) {
            *value = word.load(Ordering::Relaxed);
        }
        Some(())
    }

    /// The client's: asks for something of which it needs no answer.
    pub(crate) fn post(
        &self,
        (bell, client): (&Bell, usize),
        words: &[u64; WORDS],
        texts: [&[u8]; 2],
        sleep: Sleep,
        is_owner_gone: &dyn Fn() -> bool,
    ) -> Option<()> {
        let first = words_of(texts[0].len());
        if first + words_of(texts[1].len()) > self.texts.len() {
            return None;
        }
        // What was posted before.
        self.wait(bell, sleep, is_owner_gone)?;
        for (word, value) in self.words.iter().zip(words) {
            word.store(*value, Ordering::Relaxed);
        }
        store_text(&self.texts, texts[0]);
        store_text(&self.texts[first..], texts[1]);
        // Behind a locked instruction the owner also sees what the client has stored past the caches.
        self.state.store(ASKED, Ordering::SeqCst);
        bell.ring(client, sleep);
        Some(())
    }

    /// The client's: waits until what it has asked for last is answered.
    #[inline]
    fn wait(&self, bell: &Bell, sleep: Sleep, is_owner_gone: &dyn Fn() -> bool) -> Option<()> {
        let is_answered = || self.state.load(Ordering::Acquire) != ASKED;
        if !look(bell, &self.patience, is_answered) {
            self.is_asleep.store(1, Ordering::SeqCst);
            while self.state.load(Ordering::SeqCst) == ASKED {
                (sleep.wait)(&self.state, ASKED, SLEEP);
                if !is_answered() && is_owner_gone() {
                    return None;
                }
            }
            self.is_asleep.store(0, Ordering::Relaxed);
        }
        Some(())
    }

    /// The client's: the answer's text.
    pub(crate) fn text<'a>(&self, into: &'a mut [u8], bytes: usize) -> &'a [u8] {
        let bytes = bytes.min(into.len()).min(TEXT_BYTES);
        load_text(&self.texts, &mut into[..bytes]);
        &into[..bytes]
    }

    /// The owner's: what was asked for, if that was not answered yet.
    pub(crate) fn asked(&self) -> Option<[u64; WORDS]> {
        let is_asked = self.state.load(Ordering::Acquire) == ASKED;
        is_asked.then(|| std::array::from_fn(|word| self.words[word].load(Ordering::Relaxed)))
    }

    /// The owner's: both texts, if they are as long as the message may be.
    pub(crate) fn texts(&self, bytes: [usize; 2], into: &mut [Vec<u8>; 2]) -> Option<()> {
        let (first, second) =
            (words_of(bytes[0].min(TEXT_BYTES + 1)), words_of(bytes[1].min(TEXT_BYTES + 1)));
        if first + second > self.texts.len() {
            return None;
        }
        for ((text, bytes), at) in into.iter_mut().zip(bytes).zip([0, first]) {
            text.resize(bytes, 0);
            load_text(&self.texts[at..], text);
        }
        Some(())
    }

    /// The owner's: answers.
    pub(crate) fn answer(&self, words: &[u64; WORDS], text: &[u8], sleep: Sleep) {
        for (word, value) in self.words.iter().zip(words) {
            word.store(*value, Ordering::Relaxed);
        }
        store_text(&self.texts, text);
        self.state.store(ANSWERED, Ordering::SeqCst);
        if self.is_asleep.load(Ordering::SeqCst) != 0 {
            (sleep.wake)(&self.state);
        }
    }
}

impl Bell {
    /// The owner's, at its beginning.
    pub(crate) fn begin(&self) {
        let is_alone = std::thread::available_parallelism().is_ok_and(|processors| processors.get() == 1);
        self.is_alone.store(u32::from(is_alone), Ordering::Relaxed);
    }

    /// The client's: tells the owner that it has asked.
    #[inline]
    fn ring(&self, client: usize, sleep: Sleep) {
        // The owner sees the bit before it sleeps, or this client sees that it sleeps.
        self.asked.fetch_or(1 << client, Ordering::SeqCst);
        if self.is_asleep.load(Ordering::SeqCst) != 0 {
            self.rings.fetch_add(1, Ordering::SeqCst);
            (sleep.wake)(&self.rings);
        }
    }

    /// The owner's: waits until a client has asked, for a time at most; the clients that may have asked. When the time is over these are
    /// all: any process that maps the bell can clear another client's bit.
    pub(crate) fn wait(&self, time: Duration, sleep: Sleep) -> Clients {
        let is_asked = || self.asked.load(Ordering::Acquire) != 0;
        if !look(self, &self.patience, is_asked) {
            let rings = self.rings.load(Ordering::SeqCst);
            self.is_asleep.store(1, Ordering::SeqCst);
            if self.asked.load(Ordering::SeqCst) == 0 {
                (sleep.wait)(&self.rings, rings, time);
            }
            self.is_asleep.store(0, Ordering::SeqCst);
        }
        match self.asked.swap(0, Ordering::SeqCst) {
            0 => Clients(u64::MAX),
            asked => Clients(asked),
        }
    }
}

/// Clients by their numbers, the least first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Clients(u64);

const _: () = assert!(CLIENTS <= u64::BITS as usize);

impl Iterator for Clients {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let client = self.0.trailing_zeros() as usize;
        self.0 &= self.0.wrapping_sub(1);
        (client < CLIENTS).then_some(client)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    /// The client of the tests.
    const CLIENT: usize = CLIENTS - 1;

    /// As the gate's memory begins.
    fn new() -> Box<(Bell, Mailbox)> {
        Box::new((
            Bell {
                asked: AtomicU64::new(0),
                rings: AtomicU32::new(0),
                is_asleep: AtomicU32::new(0),
                is_alone: AtomicU32::new(0),
                patience: Patience::new(),
            },
            Mailbox {
                state: AtomicU32::new(IDLE),
                is_asleep: AtomicU32::new(0),
                patience: Patience::new(),
                words: std::array::from_fn(|_| AtomicU64::new(0)),
                texts: std::array::from_fn(|_| AtomicU64::new(0)),
            },
        ))
    }

    /// The owner's part until it is told to stop: answers with the sum of the words, and the texts the other way round.
    fn serve(bell: &Bell, mailbox: &Mailbox, is_over: &AtomicBool) {
        let mut texts = [Vec::new(), Vec::new()];
        while !is_over.load(Ordering::Relaxed) {
            let is_asked = bell.wait(Duration::from_millis(5), Sleep::plain()).any(|client| client == CLIENT);
            if let Some(words) = mailbox.asked().filter(|_| is_asked) {
                mailbox.texts([words[1] as usize, words[2] as usize], &mut texts).unwrap();

                let mut answer = [0; WORDS];
                answer[0] = words.iter().sum();
                mailbox.answer(&answer, &[&texts[1][..], &texts[0]].concat(), Sleep::plain());
            }
        }
    }

    #[test]
    fn every_message_is_answered_once() {
        let (both, is_over) = (new(), AtomicBool::new(false));
        let (bell, mailbox) = &*both;
        std::thread::scope(|scope| {
            scope.spawn(|| serve(bell, mailbox, &is_over));
            for round in 0..20_000u64 {
                if round % 3 == 0 {
                    mailbox
                        .post((bell, CLIENT), &[9; WORDS], [b"posted", b""], Sleep::plain(), &|| false)
                        .unwrap();
                }
                let texts =
                    [&b"first and longer"[..(round % 17) as usize], &b"second"[..(round % 7) as usize]];
                let mut words = [0; WORDS];
                words[..3].copy_from_slice(&[round, texts[0].len() as u64, texts[1].len() as u64]);
                let sum: u64 = words.iter().sum();
                mailbox.ask((bell, CLIENT), &mut words, texts, Sleep::plain(), || false).unwrap();
                assert_eq!(words[0], sum);
                let mut text = [0; 32];
                let expected = [texts[1], texts[0]].concat();
                assert_eq!(mailbox.text(&mut text, expected.len()), expected);
                if round % 1_000 == 0 {
                    // The owner sleeps by now.
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn the_owner_hears_which_clients_have_asked_and_looks_at_all_when_its_time_is_over() {
        let both = new();
        let bell = &both.0;
        for client in [0, 5, CLIENTS - 1] {
            bell.ring(client, Sleep::plain());
            bell.ring(client, Sleep::plain());
        }
        let wait = || bell.wait(Duration::from_millis(1), Sleep::plain()).collect::<Vec<_>>();
        assert_eq!(wait(), [0, 5, CLIENTS - 1]);
        assert_eq!(wait(), (0..CLIENTS).collect::<Vec<_>>());
        bell.ring(9, Sleep::plain());
        assert_eq!(wait(), [9]);
    }

    #[test]
    fn no_client_waits_for_an_owner_that_is_gone() {
        let both = new();
        let asked = both.1.ask((&both.0, CLIENT), &mut [0; WORDS], [b"", b""], Sleep::plain(), || true);
        assert_eq!(asked, None);
    }

    #[test]
    fn texts_that_are_too_long_are_refused() {
        let both = new();
        let (bell, mailbox) = &*both;
        let long = vec![b'x'; TEXT_BYTES];
        assert_eq!(
            mailbox.ask((bell, CLIENT), &mut [0; WORDS], [&long, b"x"], Sleep::plain(), || true),
            None
        );
        let mut texts = [Vec::new(), Vec::new()];
        for bytes in [[TEXT_BYTES, 1], [usize::MAX, 0], [0, usize::MAX], [usize::MAX, usize::MAX]] {
            assert_eq!(mailbox.texts(bytes, &mut texts), None);
        }
        mailbox.texts([TEXT_BYTES, 0], &mut texts).unwrap();
    }
}
