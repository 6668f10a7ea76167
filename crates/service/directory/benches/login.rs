//! The cost of a login and of a recipient: `cargo bench -p posthaste-directory`.
//!
//! The first login of a password is meant to cost some 20 ms, each one after it microseconds.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use posthaste_directory::{Client, Directory, NewAccount, Service};
use posthaste_mail_model::Secret;
use posthaste_store::MemoryEngine;

const PEER: Client = Client { address: IpAddr::V4(Ipv4Addr::LOCALHOST), service: Service::Imap };

fn logins(c: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let engine = Arc::new(MemoryEngine::new());
    let directory = Directory::new(engine.clone()).expect("randomness");
    let password = Secret::new("correct horse battery staple".to_owned());
    let name = "ana@example.org";
    runtime.block_on(directory.add(name, &password, NewAccount::default())).expect("an account");

    c.bench_function("login, remembered", |b| {
        b.iter(|| runtime.block_on(directory.login(name, black_box(&password), PEER)).expect("in"));
    });
    let mut slow = c.benchmark_group("first");
    slow.sample_size(10);
    slow.bench_function("login, hashed", |b| {
        b.iter_batched(
            || Directory::new(engine.clone()).expect("randomness"),
            |fresh| runtime.block_on(fresh.login(name, &password, PEER)).expect("in"),
            criterion::BatchSize::PerIteration,
        );
    });
    slow.finish();
    c.bench_function("resolve, sub-address", |b| {
        b.iter(|| runtime.block_on(directory.resolve(black_box("Ana+lists@example.org"))).expect("hers"));
    });
}

criterion_group!(benches, logins);
criterion_main!(benches);
