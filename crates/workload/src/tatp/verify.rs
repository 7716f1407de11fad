//! Whether the database holds what the transactions left.
//!
//! All requests are drawn again, and those to some of the subscribers are followed in plain maps; then everything that
//! belongs to these is compared. What is cheap is checked for all.

use rustc_hash::{FxHashMap, FxHashSet};

use super::database::Database;
use super::population::{Forwarding, STARTS, Subscriber, Table};
use super::request::Request;
use crate::emit::Halt;
use crate::random::mix;

/// Changes that are followed, about.
const FOLLOWED: u64 = 200_000;
/// Bytes of the host for each.
const FOLLOWED_BYTES: u64 = 200;

/// The bytes of the host to verify a database in which so much has changed.
pub(super) fn host_bytes(changed: u64) -> u64 {
    FOLLOWED_BYTES * changed.min(2 * FOLLOWED)
}

/// What the transactions must have left, as a model that knows neither tables nor addresses.
#[derive(Default)]
struct Model {
    seen: FxHashSet<u64>,
    bits: FxHashMap<u64, bool>,
    locations: FxHashMap<u64, u32>,
    /// By subscriber and type of facility; and start.
    data: FxHashMap<(u64, u8), u8>,
    forwardings: FxHashMap<(u64, u8, u8), Option<Forwarding>>,
}

impl Model {
    fn apply(&mut self, subscriber: u64, request: Request, database: &Database) {
        self.seen.insert(subscriber);
        let facility_of = |kind| database.population.rows_of(Table::SpecialFacility, subscriber).find(kind);
        match request {
            Request::UpdateSubscriberData { bit, facility, data } if facility_of(facility).is_some() => {
                self.bits.insert(subscriber, bit);
                self.data.insert((subscriber, facility), data);
            }
            Request::UpdateLocation { location } => {
                self.locations.insert(subscriber, location);
            }
            Request::InsertCallForwarding { facility, start, end, number } => {
                if let Some(row) = facility_of(facility) {
                    let loaded = database.population.forwarding(row, start.into());
                    let place = self.forwardings.entry((subscriber, facility, start)).or_insert(loaded);
                    *place = place.or(Some(Forwarding { end, number }));
                }
            }
            Request::DeleteCallForwarding { facility, start } if facility_of(facility).is_some() => {
                self.forwardings.insert((subscriber, facility, start), None);
            }
            _ => {}
        }
    }

    /// Everything of one subscriber.
    fn compare(&self, number: u64, database: &Database) -> Result<(), Halt> {
        let (population, changes) = (&database.population, &database.changes);
        let loaded = population.subscriber(number);
        let expected = Subscriber {
            bit: self.bits.get(&number).copied().unwrap_or(loaded.bit),
            location: self.locations.get(&number).copied().unwrap_or(loaded.location),
        };
        let is = changes.subscribers.get(&number).copied().unwrap_or(loaded);
        if is != expected {
            return wrong(format!("subscriber {number} is {is:?} instead of {expected:?}"));
        }
        for (row, kind) in population.rows_of(Table::SpecialFacility, number).iter() {
            let expected = self.data.get(&(number, kind)).copied().unwrap_or_else(|| population.data(row));
            let is = changes.data.get(&row).copied().unwrap_or_else(|| population.data(row));
            if is != expected {
                return wrong(format!(
                    "facility {kind} of subscriber {number} holds {is} instead of {expected}"
                ));
            }
            for start in 0..STARTS {
                let loaded = || population.forwarding(row, start);
                let key = (number, kind, start as u8);
                let expected = self.forwardings.get(&key).copied().unwrap_or_else(loaded);
                let is = database.forwarding(row, start);
                if is != expected {
                    return wrong(format!("call forwarding {key:?} is {is:?} instead of {expected:?}"));
                }
            }
        }
        Ok(())
    }
}

/// Compares the database with what `requests` must have left, which are the subscribers and requests of so many jobs.
pub(super) fn verify(
    database: &Database,
    jobs: u64,
    requests: impl Iterator<Item = (u64, Request)>,
) -> Result<(), Halt> {
    verify_forwardings(database)?;
    let one_in = jobs.div_ceil(FOLLOWED);
    let mut model = Model::default();
    for (subscriber, request) in requests.filter(|(subscriber, _)| mix(!subscriber).is_multiple_of(one_in)) {
        model.apply(subscriber, request, database);
    }
    model.seen.iter().try_for_each(|&subscriber| model.compare(subscriber, database))
}

/// Call forwarding rows belong to facilities, and there are as many as were inserted and not deleted.
fn verify_forwardings(database: &Database) -> Result<(), Halt> {
    let changed = &database.changes.forwardings;
    let facilities = database.population.rows();
    if let Some(place) = changed.keys().find(|&&place| place / STARTS >= facilities) {
        return wrong(format!("call forwarding row {place} belongs to none of {facilities} facilities"));
    }
    let more: i64 = changed
        .iter()
        .map(|(place, row)| {
            let loaded = database.population.forwarding(place / STARTS, place % STARTS);
            i64::from(row.is_some()) - i64::from(loaded.is_some())
        })
        .sum();
    match more == database.inserted as i64 - database.deleted as i64 {
        true => Ok(()),
        false => wrong(format!(
            "{} call forwarding rows inserted and {} deleted left {more} more",
            database.inserted, database.deleted
        )),
    }
}

fn wrong<T>(what: String) -> Result<T, Halt> {
    Err(Halt::Wrong(what))
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use pagewalk_trace::Batch;

    use super::super::population::Population;
    use super::super::request::Mix;
    use super::*;
    use crate::emit::Emitter;
    use crate::jobs::with_job;
    use crate::random::SplitMix64;
    use crate::space::AddressSpace;

    fn database(subscribers: u64) -> Database {
        let mut sink = |_: &mut Batch| ControlFlow::Continue(());
        let mut out = Emitter::new(&mut sink);
        let mut space = AddressSpace::new(&mut out);
        Database::new(Population::new(subscribers, 4), 4, &mut space, &mut out)
    }

    fn requests(subscribers: u64, count: usize) -> Vec<(u64, Request)> {
        let mut random = SplitMix64::new(8);
        (0..count).map(|_| (random.below(subscribers), Request::draw(Mix::Standard, &mut random))).collect()
    }

    fn executed(subscribers: u64, requests: &[(u64, Request)]) -> (Database, Vec<bool>) {
        let mut database = database(subscribers);
        let answers = with_job(|job| {
            requests
                .iter()
                .map(|&(subscriber, request)| database.execute(subscriber, request, job).unwrap())
                .collect()
        });
        (database, answers)
    }

    #[test]
    fn as_many_transactions_succeed_as_follows_from_the_rows() {
        // Many subscribers: in the long run call forwarding rows become others than were loaded.
        let requests = requests(100_000, 300_000);
        let (database, answers) = executed(100_000, &requests);
        assert_eq!(verify(&database, 1000, requests.iter().copied()), Ok(()));
        // Shares of all, and of these that succeed: a type of four is there in 5 of 8 cases, an hour to start at in half.
        // Of an active facility's rows some covers a random start and end in 27.8 % of cases: 7, 26 and 50 % for the
        // starts 0, 8 and 16.
        let expected = [
            ("GetSubscriberData", 0.35, 1.0),
            ("GetNewDestination", 0.10, 0.625 * 0.85 * 0.278),
            ("GetAccessData", 0.35, 0.625),
            ("UpdateSubscriberData", 0.02, 0.625),
            ("UpdateLocation", 0.14, 1.0),
            ("InsertCallForwarding", 0.02, 0.3125),
            ("DeleteCallForwarding", 0.02, 0.3125),
        ];
        for (name, share, succeed) in expected {
            let of_kind = requests.iter().zip(&answers).filter(|((_, request), _)| {
                let text = format!("{request:?}");
                text.split(' ').next() == Some(name)
            });
            let (count, good) =
                of_kind.fold((0, 0), |(count, good), (_, &is)| (count + 1, good + i32::from(is)));
            let [count, good] = [count, good].map(f64::from);
            assert!((count / 300_000.0 / share - 1.0).abs() < 0.05, "{name}: {count}");
            assert!((good / count - succeed).abs() < 0.025, "{name}: {good} of {count}");
        }
    }

    #[test]
    fn what_is_wrong_is_found() {
        let requests = requests(400, 5000);
        let found = |spoil: &dyn Fn(&mut Database), what: &str| {
            let (mut database, _) = executed(400, &requests);
            assert_eq!(verify(&database, 5000, requests.iter().copied()), Ok(()));
            spoil(&mut database);
            let answer = verify(&database, 5000, requests.iter().copied());
            assert!(matches!(&answer, Err(Halt::Wrong(text)) if text.contains(what)), "{what}: {answer:?}");
        };
        found(&|db| db.changes.subscribers.values_mut().for_each(|row| row.bit ^= true), "subscriber");
        found(&|db| db.changes.subscribers.clear(), "subscriber");
        found(&|db| db.changes.data.values_mut().for_each(|data| *data ^= 1), "facility");
        found(&|db| db.deleted += 1, "deleted");
        found(
            &|db| db.changes.forwardings.values_mut().flatten().for_each(|row| row.end ^= 1),
            "call forwarding",
        );
        found(
            &|db| {
                db.changes.forwardings.insert(u64::MAX / 2, None);
            },
            "belongs to none",
        );
    }
}
