//! How much of a message reports return where it is sent on (RFC 3461 §4.3).

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use posthaste_delivery::{Delivery, ResolveError};
use posthaste_directory::Target;
use posthaste_filter::{Delivered, Envelope, Undelivered};
use posthaste_queue::Return;
use posthaste_smtp_server::{MailSink, Role};

use crate::talk::{ANA, Setup};

/// Refuses each message, with what its sender asked for as the reason.
struct Says(Delivery);

#[async_trait]
impl MailSink for Says {
    async fn resolve(&self, address: &str) -> Result<Target, ResolveError> {
        self.0.resolve(address).await.map(Target::Account)
    }

    async fn deliver(&self, _: Bytes, envelope: Envelope<'_>, _: &[Target]) -> Vec<Delivered> {
        let says = |ret: Option<Return>| format!("RET is {}", ret.map_or("not given", Return::name));
        envelope.asked.iter().map(|asked| Err(Undelivered::Rejected(says(asked.ret)))).collect()
    }

    fn message_len_max(&self) -> u64 {
        1 << 20
    }

    fn relays(&self) -> bool {
        true
    }
}

async fn says(role: Role, login: &str) {
    let sink: fn(Delivery) -> Arc<dyn MailSink> = |delivery| Arc::new(Says(delivery));
    let mut setup = Setup { sink: Some(sink), ..Setup::new(role) };
    setup.options.relays = true;
    let server = setup.start().await;
    let mut client = server.connect().await;
    let ret = if login.is_empty() { "HDRS" } else { "FULL" };
    client
        .play(&format!(
            "S: 220 …
             C: EHLO a.example
             S* 250 HELP{login}
             C: MAIL FROM:<ana@example.org> RET=FULL
             S: 250 …
             C: RCPT TO:<ben@example.org>
             S: 250 …
             C: DATA
             S: 354 …
             C: Subject: hello
             C: .
             S: 550 5.7.1 RET is {ret}"
        ))
        .await;
}

/// Spam in the name of a stranger would come to the stranger as a whole.
#[tokio::test]
async fn only_users_get_all_of_a_message_back() {
    says(Role::Smtp, "").await;
    says(Role::Submission, &format!("\n C: AUTH PLAIN {ANA}\n S: 235 …")).await;
}

/// RFC 8601 §5: mail programs believe what bears our name.
#[tokio::test]
async fn a_user_cannot_submit_results_in_our_name() {
    let server = Setup::new(Role::Submission).start().await;
    let mut client = server.connect().await;
    client
        .play(&format!(
            "S: 220 …
             C: EHLO a.example
             S* 250 HELP
             C: AUTH PLAIN {ANA}
             S: 235 …
             C: MAIL FROM:<ana@example.org>
             S: 250 …
             C: RCPT TO:<ben@example.org>
             S: 250 …
             C: DATA
             S: 354 …
             C: Authentication-Results: mail.example.org; dmarc=pass header.from=bank.test
             C: Authentication-Results: mx.example.net; dkim=pass
             C: Subject: hello
             C: .
             S: 250 …"
        ))
        .await;
    let mail = server.inbox("ben@example.org").await.remove(0);
    assert!(mail.contains("mx.example.net; dkim=pass") && !mail.contains("bank.test"), "{mail}");
}
