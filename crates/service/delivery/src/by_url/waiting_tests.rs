//! What sessions hold while they wait for a thread.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use posthaste_store::suite::layer::Layer;
use posthaste_store::{BodyRange, Engine, MemoryEngine, Result as StoreResult};

use super::*;
use crate::deliver::DeliveryOptions;
use crate::tests::{delivery_on, message};

/// An engine that counts the bodies that are read.
struct CountedBodies {
    inner: MemoryEngine,
    read: AtomicUsize,
}

#[async_trait::async_trait]
impl Layer for CountedBodies {
    type Inner = MemoryEngine;
    fn inner(&self) -> &MemoryEngine {
        &self.inner
    }
    async fn read_body(&self, body: BodyId, range: BodyRange) -> StoreResult<Bytes> {
        self.read.fetch_add(1, Ordering::SeqCst);
        self.inner.read_body(body, range).await
    }
}

/// Each session of an account held a header of a MiB in no budget.
#[tokio::test]
async fn a_header_is_read_when_there_is_a_thread_for_it() {
    let engine = Arc::new(CountedBodies { inner: MemoryEngine::new(), read: AtomicUsize::new(0) });
    let engine_of_store = Arc::clone(&engine) as Arc<dyn Engine>;
    let (delivery, ana) = delivery_on(engine_of_store, DeliveryOptions::default()).await;
    let to = [delivery.resolve(&ana.name).await.unwrap()];
    delivery.deliver(message("one"), &to).await.remove(0).unwrap();
    let reader = UrlReader { account: &ana, host: "a.example", selected: None, used: UrlUse::Imap };
    let url = "/INBOX/;UID=1/;SECTION=HEADER.FIELDS%20(SUBJECT)";
    let (part, mut text) = (delivery.find_url(reader, url).await.unwrap(), Vec::new());
    let before = engine.read.load(Ordering::SeqCst);
    let held = delivery.url_permits.acquire(ana.id.0.to_bytes()).await;
    {
        let mut reading = pin!(delivery.read_url(&part, &mut text));
        assert!(poll_fn(|cx| Poll::Ready(reading.as_mut().poll(cx).is_pending())).await);
        assert_eq!(engine.read.load(Ordering::SeqCst), before, "it waits without the header");
        drop(held);
        reading.await.unwrap();
    }
    assert!(engine.read.load(Ordering::SeqCst) > before);
    assert_eq!(text, b"Subject: one\r\n\r\n");
}
