//! Counts while mail is sent and received, and sends reports about past periods.

use std::future::Future;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use hickory_resolver::TokioResolver;
use posthaste_directory::unix_time;
use posthaste_queue::{QueueError, Relay, TlsRequirement};
use posthaste_store::Engine;
use tokio::time::Instant;

use crate::destination::{self, LookUp};
use crate::dmarc::{DmarcReport, DmarcTally, Observation};
use crate::mail::{ReportMail, attachment};
use crate::round::{LookedUp, Round};
use crate::tally::{Ended, Tallies};
use crate::tls::{AppliedPolicy, TlsFailure, TlsReport, TlsTally};

/// The longest time between two flushes of the counts, which also look for due reports.
const CHECK_PAUSE_MAX: Duration = Duration::from_secs(300);

/// Settings of reports.
#[derive(Debug, Clone)]
pub struct ReportingOptions {
    /// Our own name.
    pub host: String,
    /// The period of one report: a day (RFC 8460 §4.1), and less in tests.
    pub period: Duration,
    /// Whether reports of TLS are made.
    pub tls: bool,
    /// Whether reports of DMARC are made.
    pub dmarc: bool,
}

/// The counts about TLS. Cheap to clone: all clones are one.
#[derive(Debug, Clone)]
pub struct TlsReports {
    tallies: Arc<Tallies<TlsTally>>,
}

impl TlsReports {
    /// A connection to a host of a domain meets its policy.
    pub fn success(&self, domain: &str, policy: &AppliedPolicy) {
        self.tallies.note(domain, unix_time::now_signed(), |tally| tally.success(policy));
    }

    /// One is not.
    pub fn failure(&self, domain: &str, policy: &AppliedPolicy, failure: TlsFailure) {
        self.tallies.note(domain, unix_time::now_signed(), |tally| tally.failure(policy, failure));
    }
}

/// The counts of messages in the name of a domain. Cheap to clone: all clones are one.
#[derive(Debug, Clone)]
pub struct DmarcReports {
    tallies: Arc<Tallies<DmarcTally>>,
}

impl DmarcReports {
    /// A message of a domain that has a policy was judged.
    pub fn note(&self, Observation { author, policy, row }: Observation) {
        self.tallies.note(&author, unix_time::now_signed(), |tally| tally.note(policy, row));
    }
}

/// Sends reports.
#[derive(Debug, Clone)]
pub struct Reporter {
    options: ReportingOptions,
    tls: Arc<Tallies<TlsTally>>,
    dmarc: Arc<Tallies<DmarcTally>>,
}

impl Reporter {
    /// A reporter with these settings.
    pub fn new(options: ReportingOptions) -> Self {
        let period = unix_time::seconds(options.period).max(1);
        let (tls, dmarc) = (Tallies::new("report-tls/", period), Tallies::new("report-dmarc/", period));
        Self { options, tls: Arc::new(tls), dmarc: Arc::new(dmarc) }
    }

    /// Where messages are counted, if reports of DMARC are made.
    pub fn dmarc(&self) -> Option<DmarcReports> {
        self.options.dmarc.then(|| DmarcReports { tallies: Arc::clone(&self.dmarc) })
    }

    /// Where connections are counted, if reports of TLS are made.
    pub fn tls(&self) -> Option<TlsReports> {
        self.options.tls.then(|| TlsReports { tallies: Arc::clone(&self.tls) })
    }

    /// Counts and sends until `stop` completes.
    pub async fn run(self, relay: Relay, resolver: TokioResolver, stop: impl Future<Output = ()>) {
        self.run_with(&relay, &resolver, stop).await;
    }

    async fn run_with(&self, relay: &Relay, dns: &impl LookUp, stop: impl Future<Output = ()>) {
        tokio::pin!(stop);
        let engine = Arc::clone(relay.delivery().store().engine());
        loop {
            let is_end = tokio::select! {
                () = &mut stop => true,
                () = tokio::time::sleep(self.pause()) => false,
            };
            self.flush(&*engine).await;
            if is_end {
                return;
            }
            let mut round = Round::new(stop.as_mut());
            match self.send_due(relay, dns, &mut round).await {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => return self.flush(&*engine).await,
                Err(error) => {
                    tracing::warn!(%error, "reports to other domains could not be sent: they are tried again");
                }
            }
        }
    }

    /// The time between two flushes.
    fn pause(&self) -> Duration {
        CHECK_PAUSE_MAX.min(self.options.period)
    }

    async fn flush(&self, engine: &dyn Engine) {
        if let Err(error) = self.tls.flush(engine, unix_time::now_signed()).await {
            tracing::warn!(%error, "counts for reports about TLS could not be stored: they are kept in memory and tried again");
        }
        if let Err(error) = self.dmarc.flush(engine, unix_time::now_signed()).await {
            tracing::warn!(%error, "counts for reports about DMARC could not be stored: they are kept in memory and tried again");
        }
    }

    /// Stores the counts if the pause since the last flush is over. A round with slow name servers
    /// is long, and counts beyond their bound in memory are dropped.
    async fn flush_between<S>(&self, engine: &dyn Engine, round: &mut Round<'_, S>) {
        if round.flushed.elapsed() >= self.pause() {
            self.flush(engine).await;
            round.flushed = Instant::now();
        }
    }

    /// The time now, and the seconds after the end of a period over which its reports are spread.
    /// RFC 8460 §5.1 requires some hours: four for a day.
    fn now_and_spread(&self) -> (i64, i64) {
        (unix_time::now_signed(), i64::try_from(self.options.period.as_secs() / 6).unwrap_or(0))
    }

    /// Sends the reports that are due. Breaks if the server stops. The report whose look-ups that
    /// interrupts is counted again, for the next start.
    async fn send_due<S: Future<Output = ()>>(
        &self,
        relay: &Relay,
        dns: &impl LookUp,
        round: &mut Round<'_, S>,
    ) -> Result<ControlFlow<()>, QueueError> {
        let engine = &**relay.delivery().store().engine();
        let mut after = None;
        while let Some(ended) =
            self.tls.take_ended(engine, self.now_and_spread(), &round.spent, &mut after).await?
        {
            match round.look_up(&ended.domain, destination::of_tls(dns, &ended.domain)).await {
                LookedUp::Found(addresses) => self.send_tls(relay, ended, addresses).await?,
                LookedUp::Late => {}
                LookedUp::Stopped => {
                    self.tls.keep(ended);
                    return Ok(ControlFlow::Break(()));
                }
            }
            self.flush_between(engine, round).await;
        }
        let mut after = None;
        while let Some(ended) =
            self.dmarc.take_ended(engine, self.now_and_spread(), &round.spent, &mut after).await?
        {
            match round.look_up(&ended.domain, destination::of_dmarc(dns, &ended.domain)).await {
                LookedUp::Found(found) => self.send_dmarc(relay, ended, found).await?,
                LookedUp::Late => {}
                LookedUp::Stopped => {
                    self.dmarc.keep(ended);
                    return Ok(ControlFlow::Break(()));
                }
            }
            self.flush_between(engine, round).await;
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Sends a report to the addresses that were found, and names the domain of the policy.
    async fn send_dmarc(
        &self,
        relay: &Relay,
        ended: Ended<DmarcTally>,
        found: Option<(String, Vec<String>)>,
    ) -> Result<(), QueueError> {
        let Ended { domain: author, start, end, tally } = ended;
        let host = self.options.host.as_str();
        let Some((domain, addresses)) = found.filter(|(_, addresses)| !addresses.is_empty()) else {
            return Ok(());
        };
        let id = relay.delivery().store().new_body_id().to_string();
        let about = DmarcReport {
            organization: host.to_owned(),
            contact: format!("postmaster@{host}"),
            id: id.clone(),
            domain: domain.clone(),
            author: author.clone(),
            start,
            end,
        };
        let made = attachment(move || tally.report(&about).into_bytes()).await;
        let Some(attachment) = made else { return Ok(()) };
        // RFC 7489 §7.2.1.1.
        let parts = SharedParts {
            domain: &domain,
            fields: "",
            outer: "multipart/mixed",
            words: &format!(
                "This is a report of {host} about mail in the name of {author} (DMARC, RFC 7489).\r\n"
            ),
            kind: "application/gzip",
            ending: "xml.gz",
            attachment: &attachment,
            tls: TlsRequirement::Policy,
        };
        self.send(relay, (&id, start, end), &parts, addresses).await
    }

    async fn send_tls(
        &self,
        relay: &Relay,
        ended: Ended<TlsTally>,
        addresses: Vec<String>,
    ) -> Result<(), QueueError> {
        let Ended { domain, start, end, tally } = ended;
        let host = self.options.host.as_str();
        if addresses.is_empty() {
            return Ok(());
        }
        let id = relay.delivery().store().new_body_id().to_string();
        let about = TlsReport {
            organization: host.to_owned(),
            contact: format!("postmaster@{host}"),
            domain: domain.clone(),
            id: id.clone(),
            start,
            end,
        };
        let made = attachment(move || tally.report(&about).to_string().into_bytes()).await;
        let Some(attachment) = made else { return Ok(()) };
        // RFC 8460 §5.3.
        let parts = SharedParts {
            domain: &domain,
            fields: &format!(
                "TLS-Report-Domain: {domain}\r\nTLS-Report-Submitter: {host}\r\nTLS-Required: No\r\n"
            ),
            outer: "multipart/report; report-type=\"tlsrpt\"",
            words: &format!(
                "This is a report of {host} about TLS on connections to hosts of {domain} (RFC 8460).\r\n"
            ),
            kind: "application/tlsrpt+gzip",
            ending: "json.gz",
            attachment: &attachment,
            // RFC 8460 §3: a report is sent whatever the domain's policy is. Otherwise a failing
            // policy would never be reported.
            tls: TlsRequirement::Optional,
        };
        self.send(relay, (&id, start, end), &parts, addresses).await
    }

    /// Gives a report to the queue, for each of its addresses. RFC 8460 §5.1, §5.3 and RFC 7489
    /// §7.2.1.1 have the names of subject and file in common.
    async fn send(
        &self,
        relay: &Relay,
        (id, start, end): (&str, i64, i64),
        parts: &SharedParts<'_>,
        addresses: Vec<String>,
    ) -> Result<(), QueueError> {
        let (host, domain) = (self.options.host.as_str(), parts.domain);
        for to in addresses {
            let mail = ReportMail {
                host,
                to: &to,
                subject: &format!("Report Domain: {domain} Submitter: {host} Report-ID: <{id}@{host}>"),
                id,
                now: unix_time::now_signed(),
                fields: parts.fields,
                outer: parts.outer,
                words: parts.words,
                kind: parts.kind,
                file: &format!("{host}!{domain}!{start}!{}!{id}.{}", end - 1, parts.ending),
                attachment: parts.attachment,
            };
            tracing::info!(domain, to, kind = parts.kind, "a report is sent");
            relay.notify(&to, mail.print().into(), parts.tls).await?;
        }
        Ok(())
    }
}

/// The parts that all mails of one report share.
struct SharedParts<'a> {
    domain: &'a str,
    /// More fields of the header, each with its CR LF.
    fields: &'a str,
    outer: &'a str,
    words: &'a str,
    kind: &'a str,
    /// The ending of the file's name.
    ending: &'a str,
    /// The file, which is made once for all addresses.
    attachment: &'a str,
    tls: TlsRequirement,
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use mail_parser::{MessageParser, MimeHeaders as _};
    use parking_lot::Mutex;
    use posthaste_delivery::{Delivery, DeliveryOptions};
    use posthaste_directory::{Directory, Policy};
    use posthaste_queue::Queue;
    use posthaste_store::{MemoryEngine, Store, StoreOptions};
    use posthaste_testkit::{DnsRecord, DnsServer};
    use tokio::sync::Notify;

    use super::*;

    /// As long as names of domains are in practice.
    const DOMAIN: &str = "departement-de-la-recherche-et-du-developpement.universite-exemple.test";

    /// Seconds of a period, and the begin of one that is over.
    const DAY: i64 = 86_400;

    async fn parts() -> (Reporter, Queue, Relay) {
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
        let directory = Directory::with_policy(Arc::clone(&engine), Policy::cheap_for_tests()).unwrap();
        let store = Store::new(engine, StoreOptions::default());
        let delivery = Delivery::new(store, Arc::new(directory), DeliveryOptions::default());
        let queue = Queue::open(delivery.clone()).await.unwrap();
        let relay = Relay::new(queue.clone(), delivery, "mail.example.org");
        let options = ReportingOptions {
            host: "mail.example.org".into(),
            period: Duration::from_secs(DAY.unsigned_abs()),
            tls: true,
            dmarc: true,
        };
        (Reporter::new(options), queue, relay)
    }

    /// Reports about these domains are due.
    async fn due(domains: impl IntoIterator<Item = String>) -> (Reporter, Relay) {
        let (reporter, _, relay) = parts().await;
        for domain in domains {
            reporter.dmarc.note(&domain, DAY, |_| {});
        }
        reporter.flush(engine_of(&relay)).await;
        (reporter, relay)
    }

    fn engine_of(relay: &Relay) -> &dyn Engine {
        &**relay.delivery().store().engine()
    }

    /// The domains with a record, in the order of periods and names.
    async fn counted(relay: &Relay) -> Vec<String> {
        let records = engine_of(relay).directory_scan("report-dmarc/", None, 1_000).await.unwrap();
        records.into_iter().filter_map(|record| Some(record.name.rsplit_once('/')?.1.to_owned())).collect()
    }

    /// Name servers that know nothing. Those for names that end with `evil.test` are slow.
    struct Slow {
        takes: Duration,
        looked_up: Mutex<Vec<String>>,
        begun: Notify,
    }

    impl Slow {
        fn new(takes: Duration) -> Self {
            Self { takes, looked_up: Mutex::default(), begun: Notify::new() }
        }

        fn has_seen(&self, name: &str) -> bool {
            self.looked_up.lock().iter().any(|other| other == name)
        }
    }

    impl LookUp for Slow {
        async fn texts(&self, name: &str) -> Vec<String> {
            self.looked_up.lock().push(name.to_owned());
            self.begun.notify_one();
            if name.ends_with("evil.test.") {
                tokio::time::sleep(self.takes).await;
            }
            Vec::new()
        }
    }

    /// A round of a server that does not stop, and how long it took.
    async fn round_of(reporter: &Reporter, relay: &Relay, dns: &Slow) -> Duration {
        let begun = Instant::now();
        let mut stop = Box::pin(std::future::pending());
        let sent = reporter.send_due(relay, dns, &mut Round::new(stop.as_mut())).await;
        assert!(sent.unwrap().is_continue());
        begun.elapsed()
    }

    /// Each answer comes in time, and all of one report would take a minute.
    #[tokio::test(start_paused = true)]
    async fn slow_name_servers_of_a_domain_delay_reports_to_others_by_a_minute() {
        let names = (0..100).map(|n| format!("{n}.a.b.c.d.e.evil.test"));
        let (reporter, relay) = due(names.chain(["x.test".to_owned()])).await;
        let dns = Slow::new(Duration::from_secs(9));
        for left in [98, 96] {
            let took = round_of(&reporter, &relay, &dns).await;
            assert!(took <= Duration::from_secs(60), "{took:?}");
            assert!(dns.has_seen("_dmarc.x.test."));
            // Two had their look-ups. The others wait for the next round.
            assert_eq!(counted(&relay).await.len(), left);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn counts_are_stored_between_slow_look_ups() {
        let (reporter, relay) = due((0..20).map(|n| format!("{n}evil.test"))).await;
        reporter.dmarc.note("new.test", unix_time::now_signed(), |_| {});
        let took = round_of(&reporter, &relay, &Slow::new(Duration::from_secs(3_600))).await;
        assert!(took > CHECK_PAUSE_MAX && took < Duration::from_secs(20 * 21), "{took:?}");
        assert_eq!(counted(&relay).await, ["new.test"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_interrupts_look_ups_and_no_count_is_lost() {
        let (reporter, relay) = due(["evil.test".to_owned()]).await;
        let dns = Slow::new(Duration::from_secs(3_600));
        let begun = Instant::now();
        reporter.run_with(&relay, &dns, dns.begun.notified()).await;
        assert!(begun.elapsed() < CHECK_PAUSE_MAX + Duration::from_secs(1));
        assert!(dns.has_seen("_dmarc.evil.test."));
        assert_eq!(counted(&relay).await, ["evil.test"]);
    }

    /// RFC 2046 §5.1.1; RFC 7489 §7.2.1.1 and RFC 8460 §5.1. Each address gets the same file.
    #[tokio::test]
    async fn boundaries_and_names_of_files_are_as_they_may_be() {
        let text = |name: String, text: &str| (name, DnsRecord::Txt(text.into()));
        let records = [
            text(
                format!("_dmarc.{DOMAIN}"),
                &format!("v=DMARC1; p=none; rua=mailto:r@{DOMAIN},mailto:s@{DOMAIN}"),
            ),
            text(format!("_smtp._tls.{DOMAIN}"), &format!("v=TLSRPTv1; rua=mailto:r@{DOMAIN}")),
        ];
        let server = DnsServer::start(records.iter().map(|(name, record)| (name.as_str(), record.clone())));
        let resolver = server.resolver();
        let (reporter, queue, relay) = parts().await;
        let (domain, start, end) = (DOMAIN.to_owned(), DAY, 2 * DAY);
        let ended = Ended { domain: domain.clone(), start, end, tally: DmarcTally::default() };
        let found = destination::of_dmarc(&resolver, DOMAIN).await;
        reporter.send_dmarc(&relay, ended, found).await.unwrap();
        let ended = Ended { domain, start, end, tally: TlsTally::default() };
        let addresses = destination::of_tls(&resolver, DOMAIN).await;
        reporter.send_tls(&relay, ended, addresses).await.unwrap();
        let items = queue.page(None).await.unwrap().unwrap().items;
        assert_eq!(items.len(), 3);
        let mut files = Vec::new();
        for (item, ending) in items.iter().zip(["xml.gz", "xml.gz", "json.gz"]) {
            let text = queue.message(item).await.unwrap();
            let mail = MessageParser::new().parse(&text[..]).unwrap();
            let boundary = mail.content_type().unwrap().attribute("boundary").unwrap();
            assert!(boundary.len() <= 70, "{boundary}");
            let file = mail.attachment(0).unwrap().attachment_name().unwrap();
            let begin = format!("mail.example.org!{DOMAIN}!86400!172799!");
            let id = file.strip_prefix(&begin).and_then(|rest| rest.strip_suffix(&format!(".{ending}")));
            let id = id.unwrap_or_else(|| panic!("{file}"));
            assert!(!id.is_empty() && id.bytes().all(|octet| octet.is_ascii_alphanumeric()), "{file}");
            files.push((file.to_owned(), mail.attachment(0).unwrap().contents().to_vec()));
        }
        assert!(files[0] == files[1] && files[1] != files[2]);
        let to: Vec<_> = items.iter().map(|item| item.recipients[0].address.as_str()).collect();
        assert_eq!(to, ["r", "s", "r"].map(|local| format!("{local}@{DOMAIN}")));
        let mut xml = String::new();
        flate2::read::GzDecoder::new(&files[0].1[..]).read_to_string(&mut xml).unwrap();
        assert!(xml.contains(&format!("<domain>{DOMAIN}</domain>")), "{xml}");
    }
}
