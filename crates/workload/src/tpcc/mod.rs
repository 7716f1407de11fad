//! TPC-C (Transaction Processing Performance Council, "TPC Benchmark C, Standard Specification", revision 5.11, 2010): a
//! wholesale supplier's orders and payments, on a server that keeps its data in memory.
//!
//! | module | what is in it |
//! |---|---|
//! | [`tables`] | the nine tables and where their rows lie |
//! | [`index`] | hash indexes over customers, their names, and the stock |
//! | [`request`], [`items`] | what clients ask for |
//! | [`transactions`] | new-order and payment |
//! | [`books`], [`stock`] | what they changed, and the checks at the end |
//!
//! A job is one transaction. There are as many warehouses as the dataset has room for.

mod books;
mod index;
mod items;
mod request;
mod stock;
mod tables;
mod transactions;

use self::books::Books;
use self::items::Items;
use self::request::Requests;
use self::stock::Stock;
use self::tables::{ITEMS, Tables, mapped_bytes, warehouses_in};
use self::transactions::{ORDER_ACCESSES, ORDER_INSTRUCTIONS, PAYMENT_ACCESSES, PAYMENT_INSTRUCTIONS, State};
use crate::emit::{Emitter, Halt};
use crate::entry::{Entry, Kind, Parameter, Preset};
use crate::jobs::{self, Job, Jobs, Server};
use crate::program::Program;

/// One warehouse and the items.
const SMALLEST: u64 = 96 << 20;

pub(crate) const ENTRY: Entry = Entry {
    name: "tpcc",
    summary: "a server whose jobs are orders or payments of TPC-C",
    phases: jobs::PHASES,
    parameters: &[
        Parameter {
            kind: Kind::Size { min: SMALLEST, max: 4 << 40, power_of_two: false },
            ..jobs::dataset("256MiB")
        },
        jobs::SKEW,
        jobs::JOBS,
        jobs::SETTLE,
        jobs::WARM,
        jobs::INTERVAL,
        jobs::work("13k"),
        Parameter {
            name: "mix",
            summary: "the transactions; of both, about half each",
            kind: Kind::Choice(&["new-order", "payment", "both"]),
            default: "new-order",
        },
    ],
    presets: &[Preset {
        name: "tpcc-small",
        summary: "one warehouse, for tests",
        values: &[("dataset", "96MiB"), ("jobs", "2k"), ("settle", "500"), ("warm", "4k")],
    }],
    make: |values| {
        let mix = [Mix::NewOrder, Mix::Payment, Mix::Both][values.get("mix") as usize];
        let jobs = Jobs::new(values);
        Ok(Box::new(Tpcc { warehouses: warehouses_in(jobs.dataset_bytes), jobs, mix }))
    },
};

/// Which transactions there are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mix {
    NewOrder,
    Payment,
    Both,
}

impl Mix {
    /// Orders among a thousand jobs.
    const fn orders(self) -> u64 {
        match self {
            Self::NewOrder => 1000,
            Self::Payment => 0,
            Self::Both => 500,
        }
    }
}

struct Tpcc {
    warehouses: u64,
    jobs: Jobs,
    mix: Mix,
}

impl Program for Tpcc {
    fn footprint_bytes(&self) -> u64 {
        mapped_bytes(self.warehouses) + self.jobs.stack_bytes()
    }

    fn host_bytes(&self) -> u64 {
        let most = |thousandths: u64| if thousandths == 0 { 0 } else { self.jobs.share(thousandths) };
        let (orders, payments) = (most(self.mix.orders()), most(1000 - self.mix.orders()));
        // Ten lines an order on average, with a deviation of 3.2 times the root of the number of orders.
        let lines = orders * 10 + orders / 50 + 1000.min(orders * 5);
        Items::host_bytes()
            + Books::host_bytes(orders, payments, self.warehouses)
            + Stock::host_bytes(lines.min(self.warehouses * ITEMS))
    }

    fn expected_accesses(&self) -> u64 {
        let orders = self.mix.orders() as f64 / 1000.0;
        let of = |order: f64, payment: f64| orders * order + (1.0 - orders) * payment;
        let own = of(ORDER_ACCESSES, PAYMENT_ACCESSES);
        let instructions = of(ORDER_INSTRUCTIONS as f64, PAYMENT_INSTRUCTIONS as f64) as u64;
        self.jobs.expected_accesses(own, instructions, of(ORDER_PAGES, PAYMENT_PAGES))
    }

    fn gives_blocks(&self) -> bool {
        true
    }

    fn run(&self, out: &mut Emitter<'_>) -> Result<(), Halt> {
        let seed = self.jobs.seed;
        self.jobs.run(out, |space, out| {
            let tables = Tables::new(self.warehouses, seed, space, out);
            Ok(Supplier {
                mix: self.mix,
                requests: Requests::new(self.warehouses, &self.jobs),
                state: State { tables, books: Books::default(), stock: Stock::new(seed) },
            })
        })
    }
}

/// Pages that an order and a payment touch, those that are loaded from first and then stored to twice; counted on runs.
const ORDER_PAGES: f64 = 47.0;
const PAYMENT_PAGES: f64 = 10.0;

struct Supplier {
    mix: Mix,
    requests: Requests,
    state: State,
}

impl Server for Supplier {
    #[inline]
    fn serve(&mut self, job: &mut Job<'_, '_>) -> Result<(), Halt> {
        let is_order = match self.mix {
            Mix::NewOrder => true,
            Mix::Payment => false,
            Mix::Both => job.random.below(2) == 0,
        };
        if is_order {
            let order = self.requests.order(&mut job.random);
            Ok(self.state.new_order(&order, job)?)
        } else {
            let payment = self.requests.payment(&mut job.random);
            Ok(self.state.payment(&payment, job)?)
        }
    }

    fn verify(&self, _: u64) -> Result<(), Halt> {
        self.state.books.verify()?;
        self.state.stock.verify()
    }
}
