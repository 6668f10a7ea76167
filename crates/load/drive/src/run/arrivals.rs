//! Mail that arrives from outside while users are at work: sent to random accounts at the
//! workload's rate.

use std::time::{Duration, Instant};

use posthaste_load_results::ErrorSample;
use posthaste_load_workload::Random;

use super::failure::Failure;
use super::open_loop::{Lane, Outgoing};
use super::options::SendBy;
use super::recorder::{ARRIVAL, ROUTED, Recorder};
use super::shared::Shared;

/// The sender of mail from outside.
const OUTSIDER: &str = "outsider@posthaste-load.invalid";

/// Sends this thread's share until the run ends.
pub async fn arrive(shared: &Shared, lane: &Lane, number: usize, lanes: usize) {
    let rate =
        shared.options.workload.arrivals_per_user_per_s * f64::from(shared.options.clients) / lanes as f64;
    let Some(way) = shared.deliver_by().filter(|_| rate > 0.0) else { return };
    let mut random = Random::new(shared.options.seed, 3 << 40 | number as u64);
    let (mut due, mut mail) = (shared.phase.start(), Vec::new());
    let rows = shared.options.workload.transactions.len();
    let outside = shared.options.pools.outside.as_ref();
    let elsewhere = outside.and_then(|o| Some((o, SendBy::Mail(o.by.clone()?))));
    loop {
        due += Duration::from_secs_f64(random.exponential(1.0 / rate));
        if !shared.phase.sleep_until(due).await {
            return;
        }
        let account = random.below(shared.options.receiving()) as u32;
        let leaving = elsewhere.as_ref().filter(|(outside, _)| random.unit() < outside.share);
        let (address, way, row) = match leaving {
            Some((outside, by)) => (format!("user{account}@{}", outside.domain), by, rows + ROUTED),
            None => (shared.options.accounts.address(account), way, rows + ARRIVAL),
        };
        // Mail that leaves is in no account, so no audit will find it.
        let ledger = shared.ledger.as_ref().filter(|_| leaving.is_none());
        mail.clear();
        let serial = shared.compose(OUTSIDER, &address, &mut mail);
        if let Some(ledger) = ledger {
            ledger.adding(account, serial);
        }
        let login = (shared.options.accounts.name(account), shared.options.accounts.password(account));
        let message = Outgoing {
            login: (&login.0, &login.1),
            from: OUTSIDER,
            to: &address,
            account,
            mail: &mail,
            source: number as u32,
        };
        let sent = lane.send(shared, way, message).await;
        let now = Instant::now();
        match (ledger, &sent) {
            (Some(ledger), Ok(_)) => ledger.added(account, serial),
            (Some(ledger), Err(failure)) if failure.is_refusal() => ledger.not_added(account, serial),
            _ => {}
        }
        lane.with(|r| {
            let tally = r.transactions.get_mut(row).filter(|_| shared.phase.counts(now));
            match (&sent, tally) {
                (Ok(bytes), Some(tally)) => {
                    tally.latency.record(now - due);
                    tally.bytes.0 += bytes.0;
                    tally.bytes.1 += bytes.1;
                }
                (Err(_), Some(tally)) => tally.errors += 1,
                _ => {}
            }
            if let Err(failure) = &sent {
                note_failure(r, shared.phase.seconds(now), &address, failure);
            }
        });
    }
}

fn note_failure(recorder: &mut Recorder, at_s: f64, address: &str, failure: &Failure) {
    recorder.second(at_s).errors += 1;
    recorder.error(failure.kind(), || ErrorSample {
        at_s,
        user: address.to_owned(),
        transaction: "(arrival)".into(),
        what: failure.to_string(),
        transcript: String::new(),
    });
}
