//! The protocol services, made from the configuration. A reload makes new services; a session keeps
//! the service that it began with.

use std::sync::Arc;
use std::time::{Duration, Instant};

use posthaste_authentication::{Verifications, Verifier, VerifierOptions};
use posthaste_delivery::HeldMessages;
use posthaste_directory::Network;
use posthaste_filter::Filter;
use posthaste_imap_server::{ClearTextLogin, Heavy, ImapOptions, ImapService, KeyCache};
use posthaste_indexing::SearchIndex;
use posthaste_managesieve_server::{self as managesieve, ManageSieveOptions, ManageSieveService};
use posthaste_metrics::Registry;
use posthaste_net::{
    Accounts, ByteBudget, Certificates, Connection, KeyedSemaphore, SessionFuture, Shutdown, compute_threads,
};
use posthaste_pop3_server::{Pop3Options, Pop3Service};
use posthaste_reporting::{Reporter, ReportingOptions};
use posthaste_retention::InboxExpiry;
use posthaste_screening::{HostRecords, Screening, ScreeningOptions};
use posthaste_smtp_client::Dns;
use posthaste_smtp_server::{
    IfUnscanned, MailSink, Milters, PlaintextAuth, Role, Scanning, SenderRule, SmtpOptions, SmtpService,
    Verification,
};

use super::current_runner::CurrentRunner;
use super::metrics::Sources;
use super::policies::Policies;
use crate::audit;
use crate::cli::Protocol;
use crate::config::{self, Config, Plaintext, RspamdFailure};
use crate::memory::Plan;
use crate::open::Opened;

/// IMAP's name in the registry of ALPN. Submission, SMTP and LMTP have none.
pub const IMAP_ALPN: &str = "imap";
/// POP3's.
pub const POP3_ALPN: &str = "pop3";
/// ManageSieve's.
const SIEVE_ALPN: &str = "managesieve";
/// The ALPN name of HTTP/1.1, the only version that is spoken.
pub const HTTP_ALPN: &str = "http/1.1";

/// The state that all sessions share, also after a reload.
pub struct Budgets {
    /// Bytes of messages that come in.
    pub incoming: ByteBudget,
    /// Bytes of large messages that are read.
    pub reading: ByteBudget,
    /// Large messages that are converted for sessions, and that they hold.
    pub held: HeldMessages,
    /// Bytes of messages on their way to other domains.
    pub queue: u64,
    /// Items that the queue may have.
    pub queue_items: u64,
    /// Bytes for what accounts see of the mailboxes of others.
    pub shared: u64,
    /// The values that SORT and THREAD compare.
    pub keys: KeyCache,
    /// Bytes of results that are kept up to date.
    pub contexts: ByteBudget,
    /// Permits for long work of IMAP's commands.
    pub heavy: Heavy,
    /// Permits for ManageSieve's commands on scripts.
    pub scripts: KeyedSemaphore<[u8; 16]>,
    /// Threads and memory for messages that are verified.
    pub verifications: Verifications,
    /// The search index: it names the messages that may hold a word.
    pub index: SearchIndex,
    /// The records about other hosts and their senders.
    pub seen: HostRecords,
    /// The limits of each account.
    pub accounts: Accounts,
    /// The costs of sessions.
    pub metrics: Arc<Registry>,
    /// Reports to other domains.
    pub reporter: Reporter,
    /// The runner that sends the queue's mail.
    pub runner: CurrentRunner,
}

impl Budgets {
    /// The sources of the metrics. Costs count from now on.
    pub fn sources(&self) -> Sources {
        let (registry, index, runner) = (Arc::clone(&self.metrics), self.index.clone(), self.runner.clone());
        Sources { registry, started: Instant::now(), index, runner }
    }

    pub fn new(plan: &Plan, config: &Config, opened: &Opened) -> Self {
        let (store, summaries) = (&opened.store, opened.delivery.summaries().clone());
        let message_len = usize::try_from(plan.message).unwrap_or(usize::MAX);
        let budget = |bytes| ByteBudget::new(usize::try_from(bytes).unwrap_or(usize::MAX));
        let accounts = Accounts::new(config.limits.of_accounts(plan.connections));
        let metrics = Arc::default();
        let keys = KeyCache::new(usize::try_from(plan.keys).unwrap_or(usize::MAX));
        let reading = budget(plan.reading);
        let index = match usize::try_from(plan.index).unwrap_or(usize::MAX) {
            bytes if config.search.index => SearchIndex::with_reads(store.clone(), bytes, reading.clone()),
            _ => SearchIndex::off(store.clone()),
        };
        Self {
            incoming: budget(plan.incoming).small_first(),
            reading,
            held: HeldMessages::default(),
            queue: plan.queue,
            queue_items: plan.queue_items(),
            shared: plan.shared,
            keys,
            contexts: budget(plan.contexts),
            heavy: Heavy::new(),
            scripts: KeyedSemaphore::new(compute_threads(), 1),
            verifications: Verifications::new().with_memory(summaries, message_len),
            index,
            seen: HostRecords::default(),
            accounts,
            metrics,
            reporter: Reporter::new(ReportingOptions {
                host: hostname(config),
                period: config.reports.period,
                tls: config.reports.tls,
                dmarc: config.reports.dmarc,
            }),
            runner: CurrentRunner::default(),
        }
    }
}

/// The services, one for each protocol. A listener that begins with TLS has its protocol's service.
#[derive(Clone)]
pub struct Services {
    imap: Arc<ImapService>,
    pop3: Arc<Pop3Service>,
    lmtp: Arc<SmtpService>,
    submission: Arc<SmtpService>,
    smtp: Arc<SmtpService>,
    sieve: Arc<ManageSieveService>,
    policies: Arc<Policies>,
    /// For listeners that begin with TLS.
    pub certificates: Certificates,
    /// Networks of peers that speak for others.
    pub proxy_networks: Arc<[Network]>,
    /// Networks whose connections are not closed for others.
    pub trusted_networks: Arc<[Network]>,
}

impl Services {
    pub fn new(
        config: &Config,
        opened: &Opened,
        filter: &Filter,
        certificates: &Certificates,
        budgets: &Budgets,
    ) -> Result<Self, String> {
        let budget = &budgets.incoming;
        let imap = imap_service(config, opened, filter, certificates, budgets);
        let pop3_certificates = Some(certificates.for_protocol(POP3_ALPN));
        let pop3 = Pop3Service::new(pop3_options(config), opened.delivery.clone(), pop3_certificates)
            .with_reads(budgets.reading.clone(), budgets.held.clone())
            .with_accounts(budgets.accounts.clone());
        // Without a relay no report could be sent.
        let reports = filter.relay().and_then(|_| budgets.reporter.dmarc());
        let verification = verification(config).map(|verification| Verification {
            verifier: verification.verifier.with_verifications(budgets.verifications.clone()),
            reports,
            ..verification
        });
        let screening = screening(config, &budgets.seen);
        let scanning = scanning(config)?;
        let milters = milters(config)?;
        let smtp = |role| {
            let sink: Arc<dyn MailSink> = Arc::new(filter.clone());
            let options = options_of(role, config, opened);
            let service = SmtpService::new(role, options, Arc::clone(&opened.directory), sink);
            let service = service.with_certificates(certificates.clone()).with_budget(budget.clone());
            let service = service.with_accounts(budgets.accounts.clone());
            let service = service.with_screening(Some(screening.clone())).with_scanning(scanning.clone());
            let service = service.with_milters(milters.clone());
            Arc::new(service.with_verification(verification.clone()))
        };
        Ok(Self {
            imap: Arc::new(imap),
            pop3: Arc::new(pop3),
            lmtp: smtp(Role::Lmtp),
            submission: smtp(Role::Submission),
            smtp: smtp(Role::Smtp),
            sieve: Arc::new(
                ManageSieveService::new(
                    managesieve_options(config),
                    Arc::clone(&opened.directory),
                    Some(certificates.for_protocol(SIEVE_ALPN)),
                    budgets.accounts.clone(),
                )
                .with_permits(budgets.scripts.clone()),
            ),
            policies: Arc::new(Policies::new(
                config.mta_sts.published(&hostname(config)).text(),
                Arc::clone(opened.store.engine()),
            )),
            certificates: certificates.clone(),
            proxy_networks: config.listen.proxy_networks.clone().into(),
            trusted_networks: trusted_networks(config),
        })
    }

    /// Serves one connection to its end.
    pub fn serve(&self, protocol: Protocol, connection: Connection, shutdown: Shutdown) -> SessionFuture {
        match protocol {
            Protocol::Imap | Protocol::Imaps => Arc::clone(&self.imap).serve(connection, shutdown),
            Protocol::Pop3 | Protocol::Pop3s => Arc::clone(&self.pop3).serve(connection, shutdown),
            Protocol::Lmtp => Arc::clone(&self.lmtp).serve(connection, shutdown),
            Protocol::Submission | Protocol::Submissions => {
                Arc::clone(&self.submission).serve(connection, shutdown)
            }
            Protocol::Smtp => Arc::clone(&self.smtp).serve(connection, shutdown),
            Protocol::Sieve => Arc::clone(&self.sieve).serve(connection, shutdown),
            Protocol::Https => {
                let policies = Arc::clone(&self.policies);
                Box::pin(async move { policies.serve(connection, shutdown).await })
            }
        }
    }
}

fn imap_service(
    config: &Config,
    opened: &Opened,
    filter: &Filter,
    certificates: &Certificates,
    budgets: &Budgets,
) -> ImapService {
    let service = ImapService::new(
        imap_options(config),
        opened.delivery.clone(),
        Some(certificates.for_protocol(IMAP_ALPN)),
        budgets.incoming.clone(),
    )
    .with_reads(budgets.reading.clone())
    .with_held(budgets.held.clone())
    .with_keys(budgets.keys.clone())
    .with_contexts(budgets.contexts.clone())
    .with_heavy(budgets.heavy.clone())
    .with_index(budgets.index.clone())
    .with_shared_bytes(budgets.shared)
    .with_accounts(budgets.accounts.clone())
    .with_record_of_acts(audit::of_clients(config));
    // RFC 6785: only with a place where scripts can be stored.
    match sieve_url(config) {
        Some(url) => service.with_scripts(filter.clone(), url),
        None => service,
    }
}

/// The answer to a client over the connection limit, in its protocol's words.
pub fn refusal(protocol: Protocol) -> &'static [u8] {
    match protocol {
        Protocol::Imap => b"* BYE [UNAVAILABLE] Too many connections\r\n",
        Protocol::Pop3 => posthaste_pop3_server::REFUSAL,
        Protocol::Lmtp => posthaste_smtp_server::refusal(Role::Lmtp),
        Protocol::Submission => posthaste_smtp_server::refusal(Role::Submission),
        Protocol::Smtp => posthaste_smtp_server::refusal(Role::Smtp),
        Protocol::Sieve => managesieve::REFUSAL,
        // Nothing can be sent before a handshake.
        Protocol::Imaps | Protocol::Pop3s | Protocol::Submissions | Protocol::Https => b"",
    }
}

/// The server's own name.
pub fn hostname(config: &Config) -> String {
    if !config.hostname.is_empty() {
        return config.hostname.clone();
    }
    machine_name()
}

/// The name of the machine, as the system knows it.
pub fn machine_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" | "(none)" => "localhost".to_owned(),
        name => name.to_owned(),
    }
}

const fn clear_text(setting: Plaintext) -> ClearTextLogin {
    match setting {
        Plaintext::Never => ClearTextLogin::Never,
        Plaintext::Loopback => ClearTextLogin::Loopback,
        Plaintext::Always => ClearTextLogin::Always,
    }
}

const fn clear_text_pop3(setting: Plaintext) -> posthaste_pop3_server::ClearTextLogin {
    use posthaste_pop3_server::ClearTextLogin;
    match setting {
        Plaintext::Never => ClearTextLogin::Never,
        Plaintext::Loopback => ClearTextLogin::Loopback,
        Plaintext::Always => ClearTextLogin::Always,
    }
}

const fn plaintext_auth(setting: Plaintext) -> PlaintextAuth {
    match setting {
        Plaintext::Never => PlaintextAuth::Never,
        Plaintext::Loopback => PlaintextAuth::LoopbackOnly,
        Plaintext::Always => PlaintextAuth::Anywhere,
    }
}

/// The time for all of the login, as a multiple of the silence allowed before login.
const LOGIN_SILENCES: u32 = 3;

fn imap_options(config: &Config) -> ImapOptions {
    let limits = &config.limits;
    ImapOptions {
        hostname: hostname(config),
        clear_text_login: clear_text(config.login.plaintext),
        clear_text_scram: clear_text(config.login.scram),
        append_bytes_max: limits.message_len(),
        append_total_bytes_max: limits.message_len().saturating_mul(2),
        unauthenticate: config.login.unauthenticate,
        gmail: config.imap.gmail,
        annotations: config.imap.annotations,
        pre_login_within: limits.login_timeout,
        login_within: limits.login_timeout * LOGIN_SILENCES,
        silence_within: limits.idle_timeout,
        comment: Some(config.imap.comment.clone()).filter(|text| !text.is_empty()),
        message_limit: config.imap.message_limit,
        save_limit: config.imap.save_limit,
        admin: Some(config.imap.admin.clone()).filter(|uri| !uri.is_empty()),
        jmap_url: Some(config.imap.jmap_url.clone()).filter(|url| !url.is_empty()),
        ..ImapOptions::default()
    }
}

fn pop3_options(config: &Config) -> Pop3Options {
    let limits = &config.limits;
    let defaults = Pop3Options::default();
    Pop3Options {
        hostname: hostname(config),
        clear_text_login: clear_text_pop3(config.login.plaintext),
        clear_text_scram: clear_text_pop3(config.login.scram),
        pre_login_within: limits.login_timeout,
        login_within: limits.login_timeout * LOGIN_SILENCES,
        // A POP3 session does one thing and ends: the time of IMAP's IDLE is too long for it.
        silence_within: limits.idle_timeout.min(defaults.silence_within),
        expiry: InboxExpiry::new(&config.retention.rules()),
        login_delay: limits.pop3_login_delay,
        ..defaults
    }
}

fn smtp_options(config: &Config, opened: &Opened) -> SmtpOptions {
    SmtpOptions {
        relay_domains: opened.directory.shared_domains(),
        trusted_networks: config.authentication.trusted_networks.clone(),
        relays_to_addresses: config.relay.to_addresses,
        message_size_max: usize::try_from(config.limits.message_len()).unwrap_or(usize::MAX),
        domain: Some(config.domain.clone()),
        postmaster: config.postmaster(),
        plaintext_auth: plaintext_auth(config.login.plaintext),
        plaintext_scram: plaintext_auth(config.login.scram),
        sender: match config.submission.sender {
            config::SenderRule::Own => SenderRule::Own,
            config::SenderRule::Envelope => SenderRule::Envelope,
            config::SenderRule::Any => SenderRule::Any,
        },
        ..SmtpOptions::new(hostname(config))
    }
}

/// RFC 5321 §4.5.3.2.7: a client may be silent for 5 minutes.
const SUBMISSION_SILENCE_MIN: Duration = Duration::from_secs(5 * 60);

fn options_of(role: Role, config: &Config, opened: &Opened) -> SmtpOptions {
    match role {
        Role::Submission => submission_options(config, opened),
        Role::Lmtp | Role::Smtp => smtp_options(config, opened),
    }
}

fn submission_options(config: &Config, opened: &Opened) -> SmtpOptions {
    let SubmissionTimes { login, silence } = SubmissionTimes::of(config);
    SmtpOptions {
        begin_within: login,
        // A program may be silent while it asks its user for the password.
        command_within: login,
        silence_within: silence,
        ..smtp_options(config, opened)
    }
}

/// The clients of submission are users (RFC 6409 §4.3), so it has the times of the other logins.
struct SubmissionTimes {
    /// For the whole login. By default that is over 5 minutes, as RFC 5321 §4.5.3.2.7 wants.
    login: Duration,
    /// The longest silence of a user.
    silence: Duration,
}

impl SubmissionTimes {
    fn of(config: &Config) -> Self {
        Self {
            login: config.limits.login_timeout * LOGIN_SILENCES,
            silence: config.limits.idle_timeout.max(SUBMISSION_SILENCE_MIN),
        }
    }
}

/// Networks from which many users log in, and the relays in front of this server.
fn trusted_networks(config: &Config) -> Arc<[Network]> {
    let (logins, relays) = (&config.login.trusted_networks, &config.authentication.trusted_networks);
    logins.iter().chain(relays).cloned().collect()
}

/// Nothing if it is off, or if there are no name servers. The log then says so.
fn verification(config: &Config) -> Option<Verification> {
    let settings = &config.authentication;
    if !settings.enabled {
        return None;
    }
    let dns = match Dns::new(&config.relay.dns, config.relay.port) {
        Ok(dns) => dns,
        Err(error) => {
            tracing::warn!(%error, "mail from other hosts is not verified: name the name servers in `relay.dns`");
            return None;
        }
    };
    let options =
        VerifierOptions { host: hostname(config), policy: settings.dmarc.into(), within: settings.timeout };
    let verifier = Verifier::new(dns.resolver().clone(), options);
    Some(Verification { verifier, trusted_networks: settings.trusted_networks.clone(), reports: None })
}

/// Lists are queried if there are name servers. Without name servers, the log names that.
fn screening(config: &Config, seen: &HostRecords) -> Screening {
    let settings = &config.screening;
    let options = ScreeningOptions {
        host: hostname(config),
        trusted_networks: config.authentication.trusted_networks.clone(),
        ..settings.options()
    };
    let resolver = if settings.block_lists.is_empty() {
        None
    } else {
        match Dns::new(&config.relay.dns, config.relay.port) {
            Ok(dns) => Some(dns.resolver().clone()),
            Err(error) => {
                tracing::warn!(%error, "no block list is queried: name the name servers in `relay.dns`");
                None
            }
        }
    };
    Screening::new(options, resolver, seen.clone())
}

/// The scanner of messages, if there is one.
fn scanning(config: &Config) -> Result<Option<Scanning>, String> {
    let Some(scanner) = config.screening.rspamd()? else { return Ok(None) };
    let if_unscanned = match config.screening.rspamd_failure {
        RspamdFailure::Accept => IfUnscanned::Accept,
        RspamdFailure::Defer => IfUnscanned::Defer,
    };
    let trusted_networks = config.authentication.trusted_networks.clone();
    Ok(Some(Scanning { scanner, if_unscanned, trusted_networks }))
}

/// The programs that see each message.
fn milters(config: &Config) -> Result<Milters, String> {
    let if_away = |failure| match failure {
        RspamdFailure::Accept => IfUnscanned::Accept,
        RspamdFailure::Defer => IfUnscanned::Defer,
    };
    let all = config.screening.milters()?.into_iter();
    Ok(Milters {
        all: all.map(|(milter, failure)| (milter, if_away(failure))).collect(),
        trusted_networks: config.authentication.trusted_networks.clone(),
    })
}

/// The URL at which scripts are managed (RFC 5804 §3), if there is one.
fn sieve_url(config: &Config) -> Option<String> {
    let port = config.listen.sieve.first()?.port();
    let port = if port == SIEVE_PORT { String::new() } else { format!(":{port}") };
    Some(format!("sieve://{}{port}", hostname(config)))
}

/// RFC 5804 §1.8.
const SIEVE_PORT: u16 = 4190;

/// RFC 5804 §1.2: a client that logged in may be silent for 30 minutes.
const SIEVE_SILENCE_MIN: Duration = Duration::from_secs(30 * 60);

fn managesieve_options(config: &Config) -> ManageSieveOptions {
    let allowed = |setting| match setting {
        Plaintext::Never => managesieve::PlaintextAuth::Never,
        Plaintext::Loopback => managesieve::PlaintextAuth::LoopbackOnly,
        Plaintext::Always => managesieve::PlaintextAuth::Anywhere,
    };
    ManageSieveOptions {
        plaintext_auth: allowed(config.login.plaintext),
        plaintext_scram: allowed(config.login.scram),
        login_within: config.limits.login_timeout * LOGIN_SILENCES,
        silence_within: config.limits.idle_timeout.max(SIEVE_SILENCE_MIN),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn submission_has_the_times_of_logins() {
        let times = |text: &str| {
            let config = Config::parse(Path::new("posthaste.toml"), text).unwrap();
            let SubmissionTimes { login, silence } = SubmissionTimes::of(&config);
            (login.as_secs(), silence.as_secs())
        };
        assert_eq!(times(""), (6 * 60, 30 * 60));
        let short = "[limits]\nlogin_timeout = \"20 s\"\nidle_timeout = \"1 min\"";
        assert_eq!(times(short), (60, 5 * 60));
        let year = 31_557_600;
        let longest = "[limits]\nlogin_timeout = \"1 year\"\nidle_timeout = \"1 year\"";
        assert_eq!(times(longest), (3 * year, year));
    }
}
