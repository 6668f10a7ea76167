//! A service for the tests of its sessions, and a client.

#![allow(clippy::unwrap_used)]

use posthaste_delivery::{Delivery, DeliveryOptions};
use posthaste_directory::{Directory, NewAccount, Policy};
use posthaste_mail_model::Secret;
use posthaste_store::{Engine, MemoryEngine, Store, StoreOptions};
use posthaste_testkit::Piped;

use super::*;
use crate::SmtpOptions;

pub(super) const MINUTE: Duration = Duration::from_secs(60);

/// A service with mailboxes in memory and one account, `ana@example.org`.
pub(super) async fn service_with_ana(role: Role) -> Arc<SmtpService> {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let store = Store::new(Arc::clone(&engine), StoreOptions::default());
    let directory = Arc::new(Directory::with_policy(engine, Policy::cheap_for_tests()).unwrap());
    let password = Secret::new("correct horse".to_owned());
    directory.add("ana@example.org", &password, NewAccount::default()).await.unwrap();
    let delivery = Delivery::new(store, Arc::clone(&directory), DeliveryOptions::default());
    let options = SmtpOptions::new("mail.example.org");
    Arc::new(SmtpService::new(role, options, directory, Arc::new(delivery)))
}

/// A client of a session whose clock the test advances.
pub(super) struct Talk(pub(super) Piped);

impl Talk {
    pub(super) async fn begin(role: Role) -> Self {
        Self::with(service_with_ana(role).await).await
    }

    pub(super) async fn with(service: Arc<SmtpService>) -> Self {
        let piped = Piped::begin(4096, 25, |connection, shutdown| service.serve(connection, shutdown));
        let mut talk = Self(piped);
        talk.expect("220 ").await;
        talk
    }

    /// Reads a reply, which must begin like this.
    pub(super) async fn expect(&mut self, start: &str) {
        let is_whole = |said: &[u8]| said.ends_with(b"\r\n") && last_line(said).get(3) == Some(&b' ');
        let reply = self.0.hear(is_whole).await;
        let reply = String::from_utf8_lossy(last_line(reply.as_bytes()));
        assert!(reply.starts_with(start), "{reply:?} instead of {start:?}");
    }

    pub(super) async fn ask(&mut self, line: &str, start: &str) {
        self.0.send(format!("{line}\r\n").as_bytes()).await;
        self.expect(start).await;
    }

    /// Says NOOP for so long.
    pub(super) async fn idle_for(&mut self, minutes: u32) {
        for _ in 0..minutes {
            self.0.advance(MINUTE).await;
            self.ask("NOOP", "250 ").await;
        }
    }
}

fn last_line(reply: &[u8]) -> &[u8] {
    let text = reply.strip_suffix(b"\r\n").unwrap_or(reply);
    &text[text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)..]
}
