//! The cost of counting: a command, and a poll of a session.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use criterion::{Criterion, criterion_group, criterion_main};
use posthaste_metrics::{Counter, Metered, OpenFolder, Registry};

fn meter(criterion: &mut Criterion) {
    let registry = Arc::new(Registry::default());
    let mut context = Context::from_waker(Waker::noop());
    let mut idle = Metered::new(Arc::clone(&registry), "imap", std::future::pending::<()>());
    criterion.bench_function("poll of a session", |b| {
        b.iter(|| Pin::new(&mut idle).poll(&mut context).is_pending());
    });
    let mut is_named = false;
    let work = poll_fn(|_| {
        if !std::mem::replace(&mut is_named, true) {
            posthaste_metrics::account("ana@example.org");
        }
        posthaste_metrics::count(Counter::Received, 10);
        posthaste_metrics::command("FETCH", Some(OpenFolder { messages: 1_000, is_inbox: true }));
        posthaste_metrics::count(Counter::Sent, 1_000);
        posthaste_metrics::command_answered();
        Poll::<()>::Pending
    });
    let mut busy = Metered::new(registry, "imap", work);
    criterion.bench_function("poll with one command", |b| {
        b.iter(|| Pin::new(&mut busy).poll(&mut context).is_pending());
    });
    criterion.bench_function("count without a session", |b| {
        b.iter(|| posthaste_metrics::count(Counter::Sent, 1));
    });
}

criterion_group!(benches, meter);
criterion_main!(benches);
