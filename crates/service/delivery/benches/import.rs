//! The cost of an import before any disk: reading, summarising and appending 20,000 messages to the
//! in-memory engine. `cargo bench -p posthaste-delivery`

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use posthaste_delivery::import::{Fault, ImportOptions, ImportedMessage, Sink, read};
use posthaste_delivery::{Delivery, DeliveryOptions};
use posthaste_directory::{Directory, NewAccount, Policy};
use posthaste_mail_model::Secret;
use posthaste_store::{Engine, MemoryEngine, Store, StoreOptions};

const MESSAGES: u64 = 20_000;

/// Messages of 4 KiB with the fields that mail usually has.
fn mbox() -> String {
    let line = "All work and no play makes a long line of quite ordinary text.\n";
    let mut out = String::new();
    for n in 0..MESSAGES {
        let _ = write!(
            out,
            "From ben@example.net Tue Nov 14 22:13:20 2023\nReceived: from mx{n}.example.net by mail.example.org;\n\
             \tTue, 14 Nov 2023 22:13:20 +0000\nFrom: Ben Example <ben@example.net>\nTo: Ana <ana@example.org>\n\
             Subject: Message {n} of many\nDate: Tue, 14 Nov 2023 22:13:20 +0000\nMessage-ID: <{n}@example.net>\n\
             MIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\nStatus: RO\n\n{}\n",
            line.repeat(58)
        );
    }
    out
}

struct Count(u64);

impl Sink for Count {
    fn message(&mut self, _: ImportedMessage) -> ControlFlow<()> {
        self.0 += 1;
        ControlFlow::Continue(())
    }
    fn fault(&mut self, fault: Fault) -> ControlFlow<()> {
        panic!("{fault}")
    }
}

fn imports(c: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("archive.mbox");
    std::fs::write(&file, mbox()).expect("a file");
    let runtime = tokio::runtime::Builder::new_multi_thread().build().expect("a runtime");

    let mut group = c.benchmark_group("mbox");
    group.sample_size(10).throughput(Throughput::Elements(MESSAGES));
    group.bench_function("read", |b| {
        b.iter(|| {
            let mut count = Count(0);
            read(&file, 1 << 20, &mut count).expect("readable");
            assert_eq!(count.0, MESSAGES);
        });
    });
    group.bench_function("import", |b| {
        b.iter(|| {
            let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
            let directory = Directory::with_policy(Arc::clone(&engine), Policy::cheap_for_tests());
            let directory = Arc::new(directory.expect("randomness"));
            let store = Store::new(engine, StoreOptions::default());
            let delivery = Delivery::new(store, directory, DeliveryOptions::default());
            runtime.block_on(async {
                let password = Secret::new("pencil".to_owned());
                let ana = delivery.directory().add("ana@example.org", &password, NewAccount::default()).await;
                let (ana, options) = (ana.expect("an account"), ImportOptions::default());
                let report = delivery.import(&ana, &file, &options, &mut |_| {}).await.expect("imported");
                assert_eq!((report.messages, report.failed), (MESSAGES, 0));
            });
        });
    });
    group.finish();
}

criterion_group!(benches, imports);
criterion_main!(benches);
