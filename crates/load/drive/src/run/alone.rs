//! Transactions whose cost is measured alone: a server at rest, the transaction, and the server at
//! rest again. So the work that the server does after its answer counts, too, and the steps that
//! prepare the transaction or undo it do not.
//!
//! One user does it, and nothing else happens on the server. The first transaction of a run is a
//! rehearsal, and is not counted: it has the cost of a first transaction in a session.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use posthaste_load_measure::own::{self, Own};
use posthaste_load_workload::{TransactionStep, Workload};

use super::alone_cost::AloneCost;
use super::failure::Failure;
use super::options::RunOptions;
use super::user::User;

/// Time between two looks at the server's CPU. It is twice the longest time that Posthaste's
/// checkpoint waits after a commit. With more, a look lasts longer than most transactions.
const LOOK: Duration = Duration::from_millis(20);
/// CPU between two looks of a server at rest, in seconds: one percent of a processor. A hundred
/// idle sessions cost Posthaste a fifth of that, by docs/measuring.md. With more, a slow background
/// task would pass for rest.
const AT_REST_S: f64 = 0.0002;
/// Looks in a row that show a server at rest. One may fall between two parts of its work.
const LOOKS_AT_REST: u32 = 2;
/// Longest wait for a server at rest. Other work on the server, or a server that is never at rest,
/// must not hold up a run. Work that goes on after it is not counted.
const REST_WITHIN: Duration = Duration::from_secs(2);

/// Whether a run can measure each transaction alone.
///
/// # Errors
/// Other users would be measured, too.
pub fn refuse_company(options: &RunOptions) -> Result<(), String> {
    if options.workload.is_measured_alone() && (options.clients != 1 || options.arrivals.is_some()) {
        return Err(format!(
            "the transactions of workload {} are measured alone, one at a time: give --clients 1, and no --arrivals and \
             --day",
            options.workload.name
        ));
    }
    Ok(())
}

/// A server at rest.
struct RestReading {
    at: Instant,
    server_s: f64,
}

impl User {
    /// A transaction between its steps before and after, measured alone if all of the run are.
    pub(super) async fn transaction_alone(&mut self, drawn: usize, due: Instant) {
        let shared = self.shared.clone();
        let workload: &Workload = &shared.options.workload;
        let Some(transaction) = workload.transactions.get(drawn) else { return };
        let rehearsal = shared.meter.is_some() && self.done == 0;
        self.done += 1;
        if !self.aside(&transaction.before, &transaction.name).await {
            if shared.options.arrivals.is_some() {
                shared.task_done();
            }
            return;
        }
        let rest = self.at_rest().await;
        let own = own::now();
        let due = if shared.options.arrivals.is_some() { due } else { Instant::now() };
        let done = self.steps(drawn).await;
        let counts = done.is_ok() && !rehearsal && shared.phase.counts(Instant::now());
        let ends = done.as_ref().is_err_and(Failure::ends_session);
        if !rehearsal {
            self.record(drawn, due, done);
        } else if let Err(failure) = &done {
            self.record_failure(&transaction.name, None, failure);
        }
        let own = (own, own::now());
        if ends {
            return self.give_up_session();
        }
        if let (Some(before), Some(after)) = (rest, self.at_rest().await)
            && counts
        {
            self.note_alone(&before, &after, own);
        }
        self.aside(&transaction.after, &transaction.name).await;
    }

    fn note_alone(&self, before: &RestReading, after: &RestReading, (then, now): (Own, Own)) {
        let cost = AloneCost {
            server_s: after.server_s - before.server_s,
            own_user_s: now.user_s - then.user_s,
            own_system_s: now.system_s - then.system_s,
            seconds: (after.at - before.at).as_secs_f64(),
            count: 1,
            failed: None,
        };
        self.lane.with(|r| r.alone.merge(&cost));
    }

    /// Steps that are not part of a transaction: neither times nor bytes of them are kept. False if
    /// one failed.
    async fn aside(&mut self, steps: &[TransactionStep], name: &str) -> bool {
        for step in steps {
            if let Err(failure) = self.step(step).await {
                self.record_failure(&format!("(beside {name})"), None, &failure);
                if failure.ends_session() {
                    self.give_up_session();
                }
                return false;
            }
        }
        self.used.fetched = 0;
        self.used.bytes_beside = (0, 0);
        self.bytes_since();
        true
    }

    /// Waits until the server is at rest; `None` if its CPU is not read.
    async fn at_rest(&mut self) -> Option<RestReading> {
        let started = Instant::now();
        let mut server_s = self.server_cpu_s()?;
        let mut looks = 0;
        while looks < LOOKS_AT_REST && started.elapsed() < REST_WITHIN {
            if !self.pause(LOOK.as_secs_f64()).await {
                break;
            }
            let now_s = self.server_cpu_s()?;
            looks = if now_s - server_s < AT_REST_S { looks + 1 } else { 0 };
            server_s = now_s;
        }
        Some(RestReading { at: Instant::now(), server_s })
    }

    /// The CPU that the server has used.
    fn server_cpu_s(&self) -> Option<f64> {
        let meter = self.shared.meter.as_ref()?;
        let read = meter.lock().unwrap_or_else(PoisonError::into_inner).cpu_s();
        read.inspect_err(|error| {
            let failed = Some(error.to_string());
            self.lane.with(|r| r.alone.merge(&AloneCost { failed, ..AloneCost::default() }));
        })
        .ok()
    }
}
