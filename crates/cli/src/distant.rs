//! A memory blade elsewhere, as the RISC-V machine's remote memory.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use pagewalk_blade::codec::{MacAddress, Word, WordSize};
use pagewalk_blade::{Address, Client, ClientError, Completion, Failure, Operation, Outcome, Transport};
use pagewalk_riscv::{Page, RemoteError, RemoteMemory, WordOperation, WordRequest};

/// The time of one look at the network while something is waited for. The client itself knows when to give up.
const PATIENCE: Duration = Duration::from_millis(100);

/// A client, and the writes that go on beside the program.
pub(crate) struct Distant {
    client: Client<Box<dyn Transport + Send>>,
    /// Whether the blade is where the program says, and not where the command was told.
    follows: bool,
    /// Pages that are being written, by transaction.
    writing: HashMap<u32, u64>,
    /// Pages whose write has ended, and which the machine has not asked for yet.
    written: VecDeque<u64>,
}

impl Distant {
    pub(crate) fn new(client: Client<Box<dyn Transport + Send>>) -> Self {
        let follows = client.blade() == Address::ANYONE;
        Self { client, follows, writing: HashMap::new(), written: VecDeque::new() }
    }

    /// Asks the blade for a page, so that one that cannot be reached is known before the program runs; a refusal is an answer,
    /// too. A blade that the program names cannot be asked yet.
    pub(crate) fn check(&mut self) -> Result<(), ClientError> {
        if self.follows {
            return Ok(());
        }
        match self.client.read_page(0) {
            Err(ClientError::Failed(Failure::Refused { .. })) | Ok(_) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Submits, as soon as there is room.
    fn submit(&mut self, operation: Operation) -> Result<u32, RemoteError> {
        while self.client.free() == 0 {
            if let Some(ended) = self.client.poll(PATIENCE).map_err(unreachable)? {
                self.note(ended)?;
            }
        }
        self.client.submit(operation).map_err(unreachable)
    }

    /// Does an operation, and returns its outcome.
    fn wait(&mut self, operation: Operation) -> Result<Outcome, RemoteError> {
        let transaction = self.submit(operation)?;
        loop {
            match self.client.poll(PATIENCE).map_err(unreachable)? {
                Some(ended) if ended.txid == transaction => return ended.result.map_err(failed),
                Some(ended) => self.note(ended)?,
                None => {}
            }
        }
    }

    /// Notes that a write has ended.
    fn note(&mut self, ended: Completion) -> Result<(), RemoteError> {
        let page = self.writing.remove(&ended.txid);
        ended.result.map_err(failed)?;
        self.written.extend(page);
        Ok(())
    }
}

fn failed(failure: Failure) -> RemoteError {
    match failure {
        Failure::Refused { page, wanted } => {
            RemoteError::Refused { page, why: Failure::why_refused(page, wanted) }
        }
        failure => RemoteError::Unreachable(failure.to_string()),
    }
}

fn unreachable(error: ClientError) -> RemoteError {
    match error {
        ClientError::Failed(failure) => failed(failure),
        error => RemoteError::Unreachable(error.to_string()),
    }
}

impl RemoteMemory for Distant {
    fn read_page(&mut self, page: u64, into: &mut Page) -> Result<(), RemoteError> {
        match self.wait(Operation::ReadPage { page })? {
            Outcome::Page(content) => {
                into.copy_from_slice(&content[..]);
                Ok(())
            }
            _ => Err(RemoteError::Unreachable("a read of a page was answered without one".into())),
        }
    }

    fn begin_write(&mut self, page: u64, data: &Page) -> Result<(), RemoteError> {
        let transaction = self.submit(Operation::WritePage { page, content: Box::new(*data) })?;
        self.writing.insert(transaction, page);
        Ok(())
    }

    fn write_page(&mut self, page: u64, data: &Page) -> Result<(), RemoteError> {
        self.wait(Operation::WritePage { page, content: Box::new(*data) }).map(|_| ())
    }

    fn finished_write(&mut self, wait: bool) -> Result<Option<u64>, RemoteError> {
        loop {
            if let Some(page) = self.written.pop_front() {
                return Ok(Some(page));
            }
            if self.writing.is_empty() {
                return Ok(None);
            }
            match self.client.poll(if wait { PATIENCE } else { Duration::ZERO }).map_err(unreachable)? {
                Some(ended) => self.note(ended)?,
                None if wait => {}
                None => return Ok(None),
            }
        }
    }

    fn turn_to(&mut self, address: [u8; 6]) -> Result<(), RemoteError> {
        let blade = Address::Ethernet(MacAddress(address));
        if self.follows && blade != self.client.blade() {
            while self.client.under_way() > 0 {
                if let Some(ended) = self.client.poll(PATIENCE).map_err(unreachable)? {
                    self.note(ended)?;
                }
            }
            self.client.turn_to(blade);
        }
        Ok(())
    }

    fn word(&mut self, request: WordRequest) -> Result<u64, RemoteError> {
        let WordRequest { page, offset, size, operation } = request;
        let size = WordSize::ALL.get(usize::from(size)).copied();
        let word = size.and_then(|size| Word::new(offset, size)).ok_or_else(|| {
            let why = format!("offset {offset} is across its end");
            RemoteError::Refused { page, why }
        })?;
        let operation = match operation {
            WordOperation::Read => Operation::ReadWord { page, word },
            WordOperation::Write(value) => Operation::WriteWord { page, word, value },
            WordOperation::Add(value) => Operation::Add { page, word, value },
            WordOperation::CompareAndSwap { new, expected } => {
                Operation::CompareAndSwap { page, word, new, expected }
            }
        };
        match self.wait(operation)? {
            Outcome::Word(value) => Ok(value),
            _ => Ok(0),
        }
    }
}
