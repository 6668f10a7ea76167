//! The state that all sessions of a listener share: settings, directory, sink, and the checks of
//! mail.

use std::fmt;
use std::sync::Arc;

use posthaste_directory::Directory;
use posthaste_net::{Accounts, ByteBudget, Certificates};
use posthaste_screening::Screening;

use crate::milters::Milters;
use crate::scanning::Scanning;
use crate::verification::Verification;
use crate::{MailSink, Role, SmtpOptions};

/// The state that all sessions of a listener share.
pub struct SmtpService {
    pub(crate) role: Role,
    pub(crate) options: Arc<SmtpOptions>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) sink: Arc<dyn MailSink>,
    pub(crate) certificates: Option<Certificates>,
    pub(crate) budget: ByteBudget,
    pub(crate) accounts: Accounts,
    pub(crate) verification: Option<Verification>,
    pub(crate) screening: Option<Screening>,
    pub(crate) scanning: Option<Scanning>,
    pub(crate) milters: Milters,
}

/// Message bytes that all sessions may hold together by default: four of the largest messages, or
/// some thousands of usual ones.
const BUDGET_DEFAULT_BYTES: usize = 256 * 1024 * 1024;

/// Octets of trace headers at most. They are five lines, each with one name of a client or
/// recipient, and the results of a verification. The results have some lines for each signature.
const TRACE_LEN_MAX: u64 = 16 * 1024;

impl SmtpService {
    /// A service that takes mail for `sink`, with the logins of `directory`.
    pub fn new(
        role: Role,
        mut options: SmtpOptions,
        directory: Arc<Directory>,
        sink: Arc<dyn MailSink>,
    ) -> Self {
        // A message of the announced size must fit the sink together with our own headers.
        let room = sink.message_len_max().saturating_sub(TRACE_LEN_MAX);
        options.message_size_max = options.message_size_max.min(usize::try_from(room).unwrap_or(usize::MAX));
        options.relays = sink.relays();
        let options = Arc::new(options);
        let (budget, accounts) = (ByteBudget::new(1), Accounts::default());
        let service = Self {
            role,
            options,
            directory,
            sink,
            certificates: None,
            budget,
            accounts,
            verification: None,
            screening: None,
            scanning: None,
            milters: Milters::default(),
        };
        service.with_budget(ByteBudget::new(BUDGET_DEFAULT_BYTES))
    }

    /// Offers STARTTLS.
    #[must_use]
    pub fn with_certificates(mut self, certificates: Certificates) -> Self {
        self.certificates = Some(certificates);
        self
    }

    /// Verifies mail from other hosts ([`Role::Smtp`]).
    #[must_use]
    pub fn with_verification(mut self, verification: Option<Verification>) -> Self {
        self.verification = verification;
        self
    }

    /// Screens other hosts ([`Role::Smtp`]).
    #[must_use]
    pub fn with_screening(mut self, screening: Option<Screening>) -> Self {
        self.screening = screening.filter(|_| self.role == Role::Smtp);
        self
    }

    /// Has mail from other hosts scanned ([`Role::Smtp`]).
    #[must_use]
    pub fn with_scanning(mut self, scanning: Option<Scanning>) -> Self {
        self.scanning = scanning.filter(|_| self.role == Role::Smtp);
        self
    }

    /// Shows mail from other hosts to these programs ([`Role::Smtp`]).
    #[must_use]
    pub fn with_milters(mut self, milters: Milters) -> Self {
        self.milters = milters;
        self
    }

    /// Has these limits for each account. Share them with other services.
    #[must_use]
    pub fn with_accounts(mut self, accounts: Accounts) -> Self {
        self.accounts = accounts;
        self
    }

    /// Shares a budget of message bytes with other services.
    #[must_use]
    pub fn with_budget(mut self, budget: ByteBudget) -> Self {
        // One holder's share must take the largest message, and the headers in front of it.
        let largest = self.options.message_size_max.saturating_add(TRACE_LEN_MAX as usize);
        self.budget = budget.with_share_of_at_least(largest);
        self
    }
}

impl fmt::Debug for SmtpService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SmtpService")
            .field("role", &self.role)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
