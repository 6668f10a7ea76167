//! A message from another host is shown to a spam scanner before it is delivered.

use bytes::Bytes;
use posthaste_authentication::changing_header;
use posthaste_net::freed_elsewhere;
use posthaste_scanner::{Envelope, Verdict};

use super::Driver;
use crate::reply::Reply;
use crate::scanning::{IfUnscanned, Scanning};
use crate::session::replies;
use crate::verification::Verified;

impl Driver {
    /// The scanner for mail of this host, if there is one.
    fn scanning(&self) -> Option<&Scanning> {
        let address = self.connection.peer().ip().to_canonical();
        let scanning = self.service.scanning.as_ref()?;
        let is_trusted = scanning.trusted_networks.iter().any(|network| network.contains(address));
        (!is_trusted).then_some(scanning)
    }

    /// Has a message scanned. `received` is the message as it came.
    pub(super) async fn scanned(
        &self,
        id: &str,
        verified: Verified,
        received: Bytes,
        (from, to): (&str, Vec<&str>),
    ) -> Result<Verified, Reply> {
        let Some(scanning) = self.scanning() else { return Ok(verified) };
        let client = self.connection.peer().ip().to_canonical();
        let helo = self.session.client_name();
        let name = verified.client_name.as_deref();
        let envelope = Envelope { id, address: client, name, helo, from, to };
        let scan = match scanning.scanner.scan(&envelope, received).await {
            Ok(scan) => scan,
            Err(error) if scanning.if_unscanned == IfUnscanned::Accept => {
                tracing::warn!(id, %client, from, %error, "delivered without a scan");
                return Ok(verified);
            }
            Err(error) => {
                tracing::warn!(id, %client, from, %error, "deferred: the message could not be scanned");
                return Err(replies::unscanned());
            }
        };
        let (score, required) = (scan.score, scan.required);
        tracing::info!(id, %client, from, score, required, verdict = ?scan.verdict, "scanned");
        if let Some(refusal) = replies::scanned(&scan.verdict) {
            return Err(refusal);
        }
        let ignored = scan.fields.ignored();
        if ignored > 0 {
            tracing::warn!(id, ignored, "the scanner changes too many fields: some changes are not made");
        }
        let Verified { message, trace_len, mut is_quarantined, client_name, is_sender_proven, .. } = verified;
        is_quarantined |= scan.verdict == Verdict::Junk;
        let fields = scan.fields;
        let apply = move |message: Bytes| freed_elsewhere(fields.applied(&message, trace_len));
        let message = changing_header(self.header_holder(), message, apply).await;
        Ok(Verified { message, trace_len, is_quarantined, client_name, is_sender_proven, memory: None })
    }
}
