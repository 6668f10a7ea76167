//! Divides the memory that the server may use. The worst case is the sum of all parts. The server
//! logs it at the start, and does not start if it is over `limits.memory`.
//!
//! ```text
//! limits.memory
//!   connections × CONNECTION_BYTES    buffers, a command under way, TLS and compression
//!   limits.incoming_bytes, twice      messages that come in, and the copy of a verifier, a milter
//!                                     or a signature
//!   limits.reading_bytes              large messages that are read for FETCH and SEARCH
//!   limits.summary_bytes              summaries in the making, verifications, runs of Sieve and
//!                                     the script that each reads before, and the commits of COPY,
//!                                     MOVE, RENAME of INBOX, STORE, EXPUNGE
//!   summaries that are made           until they are stored; what scripts want until it is done
//!   queue                             messages on their way to other domains
//!   store.cache                       views of mailboxes that nobody has open
//!   old views                         what sessions hold of mailboxes that changed since
//!   sort keys                         what SORT and THREAD compare, of the mailboxes sorted last
//!   kept results                      searches that are saved, or kept up to date
//!   search index                      words of the mailboxes searched last
//!   password hashes                   as many at once as there are threads for them
//!   schedule                          the items of the queue, without their messages
//!   scripts                           compiled Sieve scripts
//!   shared mailboxes                  what accounts see of the mailboxes of others
//!   TABLES_BYTES                      what is known of other hosts, logins and reports
//!   PROGRAM_BYTES                     the program, its threads, pages of the commit under way
//! ```
//!
//! Beside that, in the memory that `limits.memory` leaves:
//!
//! ```text
//! views of open mailboxes           the newest views: 29 bytes a message, shared by all sessions
//!                                   of a mailbox. They have a quarter of what is left
//! rows that changes copy            those beside the rows that a STORE or an EXPUNGE changes,
//!                                   until it is stored: twice as much as the newest views
//! summaries of mail that scripts    one for each of ten steps, while those that are made have no
//! send on, and of the queue         memory left: `SummaryMemory`
//! what a script wants               of one at a time, while summaries leave no room for it
//! ```
//!
//! A mailbox that has no room there is not opened, and an open one gets no more messages. The first
//! thousand messages of each do not count, so a connection may add 29 KB. Retention, renewals and
//! the search index each have one mailbox open at a time, whether or not there is room.
//!
//! The largest old view of each account has no bound of its own. It takes as much as the newest
//! one did, and twice that while a report is sent. "auto" of `limits.account_messages` lets all
//! views of one account take half of what is left: its newest ones have half of their quarter.
//! The page cache is not counted either. The system can reclaim it.

use bytesize::ByteSize;
use posthaste_delivery::{QUOTAS_BYTES_MAX, summaries_beside, summary_memory_max};
use posthaste_directory::{LOGINS_BYTES_MAX, hashes_at_once};
use posthaste_filter::{OUTCOMES_BYTES_BESIDE, SCRIPTS_BYTES_LEAST, SCRIPTS_BYTES_MAX};
use posthaste_imap_server::{SHARED_BYTES_LEAST, SHARED_BYTES_MAX};
use posthaste_net::COPIES_BYTES_MAX;
use posthaste_queue::SCHEDULED_BYTES_MAX;
use posthaste_reporting::REPORTS_BYTES_MAX;
use posthaste_screening::HOSTS_BYTES_MAX;
use posthaste_smtp_client::{DNS_BYTES_MAX, STS_BYTES_MAX};
use posthaste_tokens::introspection::ANSWERS_BYTES_MAX;

use super::machine::{known_memory, memory_there_is};
use crate::config::{Auto, Config};

/// The memory that one connection may hold in the worst case, while it waits for its client. Each
/// has four TLS records each way. To these come:
///
/// ```text
/// IMAP             a command of 256 KiB with the values that it was parsed into, 128 KiB of input
///                  after it, 128 KiB of output, 128 KiB of a message, 16 KiB of kept results, and
///                  the windows of DEFLATE
/// SMTP, LMTP,      recipients of 768 KiB, 128 KiB of input, 32 KiB of replies, 16 KiB of MAIL
/// submission
/// ManageSieve      input of 512 KiB that has had a script, and 320 KiB of answers
/// ```
///
/// `tests/memory` measures sessions in these states. The delivery of a message copies its
/// recipients. It reserves that memory from `limits.incoming_bytes`, as for the message.
pub const CONNECTION_BYTES: u64 = 1120 << 10;
/// The memory of the program without connections: threads, and pages of the commit under way.
const PROGRAM_BYTES: u64 = 16 << 20;
/// Tables that are full only under an attack, each with the bound of the crate that has it.
const TABLES: [u64; 8] = [
    LOGINS_BYTES_MAX,
    ANSWERS_BYTES_MAX,
    HOSTS_BYTES_MAX,
    REPORTS_BYTES_MAX,
    QUOTAS_BYTES_MAX,
    COPIES_BYTES_MAX,
    DNS_BYTES_MAX,
    STS_BYTES_MAX,
];
/// Bytes of all tables.
const TABLES_BYTES: u64 = sum(&TABLES);
/// Bytes for the items of the queue: 190,000 of them if each has a destination of its own with
/// the longest name.
const SCHEDULE_BYTES_MAX: u64 = 512 << 20;
/// The least of them: some 1,500 items. With 1 MiB more, a machine of 256 MiB would be too small.
const SCHEDULE_BYTES_LEAST: u64 = 4 << 20;
/// Bytes for sort keys: those of a mailbox of 100,000 messages take some 5 MB.
const KEYS_BYTES_MAX: u64 = 32 << 20;
/// Bytes for results that are kept up to date (RFC 5267) or saved (RFC 5182). A sorted one of
/// 100,000 messages takes half a MB. A saved one takes 8 bytes for each range of UIDs.
const CONTEXTS_BYTES_MAX: u64 = 32 << 20;
/// Bytes of old views that sessions hold, in addition to the largest one of each account. A view
/// of a million messages takes 29 MB if changes touched all of it.
const OLD_VIEWS_BYTES_MAX: u64 = 128 << 20;
/// The least of them: some nine views of a thousand messages. With twice as many, a machine of
/// 256 MiB would be too small.
const OLD_VIEWS_BYTES_LEAST: u64 = 256 << 10;
/// Bytes for the search index: about a fifth of the texts that it covers.
const INDEX_BYTES_MAX: u64 = 256 << 20;
/// Bytes of messages on their way to other domains: beyond that, they wait for each other.
const QUEUE_BYTES_MAX: u64 = 256 << 20;
/// Bytes of summaries that wait for their commit, and of what scripts want: ten of the longest
/// summaries, or a hundred thousand usual ones.
const FINISHED_BYTES_MAX: u64 = 128 << 20;
/// The least of them. The longest summary takes twice as much. Then there is no other one, and the
/// memory to make summaries is free.
const FINISHED_BYTES_LEAST: u64 = 5 << 20;
/// Bytes that an account's views may take for each of its messages: the newest one, the largest old
/// one, and twice as much while a report is sent.
const VIEW_BYTES: u64 = 4 * 29;
/// The divisor of the memory beside `limits.memory` that gives the part for newest views. Old
/// views of as many messages, and those of reports, take three times as much.
const OPEN_VIEWS_DIVISOR: u64 = 4;
/// Most messages of an account that "auto" allows.
const ACCOUNT_MESSAGES_MAX: u64 = 5_000_000;
/// Most connections that "auto" allows.
const CONNECTIONS_MAX: u64 = 16_000;
/// "auto" takes room for this many from all other parts.
const CONNECTIONS_LEAST: u64 = 64;
/// Fewer than this many serve nobody well. A machine without room for them is too small.
const CONNECTIONS_FEWEST: u64 = 16;
/// The value of "auto" for `limits.message_size` on large machines, and on ever smaller ones.
const MESSAGE_LENS: [u64; 9] =
    [64 << 20, 32 << 20, 16 << 20, 8 << 20, 4 << 20, 2 << 20, 1 << 20, 512 << 10, 256 << 10];

/// The memory that each part may use, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// The bound on all of it.
    pub memory: u64,
    /// The largest message.
    pub message: u64,
    pub connections: u64,
    pub incoming: u64,
    pub reading: u64,
    pub summaries: u64,
    /// Summaries that are made and not stored yet, and what scripts want.
    pub finished: u64,
    pub queue: u64,
    /// Items of the queue, without their messages.
    pub schedule: u64,
    /// Compiled Sieve scripts.
    pub scripts: u64,
    /// What accounts see of the mailboxes of others.
    pub shared: u64,
    pub cache: u64,
    /// Views that sessions hold of mailboxes that changed since.
    pub old_views: u64,
    /// Newest views of mailboxes: beside `memory`.
    pub open_views: u64,
    /// Summaries of mail that scripts send on, and of the queue: beside `memory`.
    pub sent_on: u64,
    pub keys: u64,
    pub contexts: u64,
    pub index: u64,
    pub hashes: u64,
    /// Messages of an account without its own limit; 0: no limit.
    pub account_messages: u64,
}

impl Plan {
    /// The plan of a configuration on this machine.
    pub fn of(config: &Config) -> Self {
        Self::within(config, memory_there_is(), hashes_at_once() as u64)
    }

    /// An error that names the part that is too large, if the parts exceed the whole.
    pub fn check(&self) -> Result<(), String> {
        if self.worst_case() > self.memory { Err(self.refusal()) } else { Ok(()) }
    }

    /// A warning, if the bound is over the memory that there is.
    pub fn warning(&self) -> Option<String> {
        known_memory().and_then(|there_is| self.warning_with(there_is))
    }

    /// The warning on a machine, or in a control group, with this much memory.
    fn warning_with(&self, there_is: u64) -> Option<String> {
        let excess = self.memory > there_is;
        excess.then(|| {
            format!(
                "`limits.memory` is {}, but the machine or the control group of the server has {}: the system may end \
                 the server when it uses more. Lower `limits.memory`, set it to \"auto\", or provide more memory",
                size(self.memory),
                size(there_is)
            )
        })
    }

    fn within(config: &Config, there_is: u64, hashes_at_once: u64) -> Self {
        let limits = &config.limits;
        // A quarter is left to the files' pages, to views that are open and to other programs.
        let memory = limits.memory.map(ByteSize::as_u64).unwrap_or(there_is / 4 * 3);
        let hashes = hashes_at_once.saturating_mul(config.login.argon2_memory.as_u64());
        let least = |message| Self::least(config, memory, message, hashes);
        let plan = limits.message_size.map(|size| least(size.as_u64())).unwrap_or_else(|| {
            let fitting = MESSAGE_LENS.into_iter().map(least).find(|plan| plan.has_room(config));
            fitting.unwrap_or_else(|| least(MESSAGE_LENS[MESSAGE_LENS.len() - 1]))
        });
        Self { open_views: Self::open_views(memory, there_is), ..plan.shared_out(config) }
    }

    /// The bytes of newest views. If `limits.memory` leaves little of the machine, they are those
    /// of a machine of which it is three quarters.
    const fn open_views(memory: u64, there_is: u64) -> u64 {
        let (left, least) = (there_is.saturating_sub(memory), memory / 3);
        if left > least { left / OPEN_VIEWS_DIVISOR } else { least / OPEN_VIEWS_DIVISOR }
    }

    /// The parts as small as the largest message and the settings let them be.
    fn least(config: &Config, memory: u64, message: u64, hashes: u64) -> Self {
        let limits = &config.limits;
        let octets = usize::try_from(message).unwrap_or(usize::MAX);
        let summary = summary_memory_max(octets) as u64;
        let part = |set: Auto<ByteSize>, least: u64| set.map(ByteSize::as_u64).unwrap_or(least);
        Self {
            memory,
            message,
            connections: limits.connections.map(|n| *n as u64).unwrap_or(CONNECTIONS_LEAST),
            incoming: part(limits.incoming_bytes, message),
            reading: part(limits.reading_bytes, message),
            summaries: part(limits.summary_bytes, summary),
            finished: FINISHED_BYTES_LEAST,
            queue: message,
            schedule: SCHEDULE_BYTES_LEAST,
            scripts: SCRIPTS_BYTES_LEAST,
            shared: SHARED_BYTES_LEAST,
            cache: part(config.store.cache, 0),
            old_views: OLD_VIEWS_BYTES_LEAST,
            open_views: Self::open_views(memory, 0),
            sent_on: summaries_beside(octets, config.store.compression()) as u64,
            keys: 0,
            contexts: 0,
            index: 0,
            hashes,
            // A third of the memory is left beside it, and views take half of that.
            account_messages: limits
                .account_messages
                .map(|count| *count)
                .unwrap_or_else(|| (memory / 6 / VIEW_BYTES).min(ACCOUNT_MESSAGES_MAX)),
        }
    }

    /// Whether the parts fit, and budgets that are set let a message of this size through.
    fn has_room(&self, config: &Config) -> bool {
        let limits = &config.limits;
        let summary = summary_memory_max(usize::try_from(self.message).unwrap_or(usize::MAX)) as u64;
        let budgets = [
            (limits.incoming_bytes, self.message),
            (limits.reading_bytes, self.message),
            (limits.summary_bytes, summary),
        ];
        let lets_through = |(set, least): (Auto<ByteSize>, u64)| {
            set.map(ByteSize::as_u64).is_none_or(|bytes| bytes >= least)
        };
        self.worst_case() <= self.memory && budgets.into_iter().all(lets_through)
    }

    /// Gives the rest to the parts that are not set: to each a share of the whole, and at most what
    /// gains anything. A machine without room for sort keys reads them again for each SORT.
    fn shared_out(mut self, config: &Config) -> Self {
        let (limits, memory) = (&config.limits, self.memory);
        let mut left = memory.saturating_sub(self.worst_case());
        // Half of the rest at most, so that something remains for the next.
        let mut grow = |part: &mut u64, wanted: u64, costs: u64| {
            let more = wanted.saturating_sub(*part).min(left / 2 / costs);
            *part += more;
            left -= more * costs;
        };
        grow(&mut self.schedule, (memory / 16).min(SCHEDULE_BYTES_MAX), 1);
        if limits.incoming_bytes == Auto::Auto {
            grow(&mut self.incoming, (memory / 8).min(1 << 30), 2);
        }
        if limits.reading_bytes == Auto::Auto {
            grow(&mut self.reading, (memory / 16).min(256 << 20), 1);
        }
        if limits.summary_bytes == Auto::Auto {
            grow(&mut self.summaries, (memory / 8).min(512 << 20), 1);
        }
        if config.store.cache == Auto::Auto {
            grow(&mut self.cache, (memory / 8).min(256 << 20), 1);
        }
        grow(&mut self.finished, (memory / 32).min(FINISHED_BYTES_MAX), 1);
        grow(&mut self.queue, (memory / 16).min(QUEUE_BYTES_MAX), 1);
        grow(&mut self.scripts, SCRIPTS_BYTES_MAX, 1);
        grow(&mut self.shared, (memory / 32).min(SHARED_BYTES_MAX), 1);
        grow(&mut self.old_views, (memory / 32).min(OLD_VIEWS_BYTES_MAX), 1);
        grow(&mut self.keys, (memory / 64).min(KEYS_BYTES_MAX), 1);
        grow(&mut self.contexts, (memory / 64).min(CONTEXTS_BYTES_MAX), 1);
        grow(&mut self.index, (memory / 32).min(INDEX_BYTES_MAX), 1);
        if limits.connections == Auto::Auto {
            self.connections = 0;
            let room = memory.saturating_sub(self.worst_case()) / CONNECTION_BYTES;
            self.connections = room.clamp(CONNECTIONS_FEWEST, CONNECTIONS_MAX);
        }
        self
    }

    /// The most that all parts together may use, in bytes.
    pub fn worst_case(&self) -> u64 {
        let Self { incoming, reading, summaries, finished, queue, schedule, .. } = *self;
        let Self { cache, old_views, keys, contexts, index, scripts, shared, hashes, .. } = *self;
        let connections = self.connections.saturating_mul(CONNECTION_BYTES);
        let messages = [incoming, incoming, reading, summaries, finished, queue, schedule];
        let mailboxes = [cache, old_views, keys, contexts, index, scripts, shared];
        let fixed = [connections, hashes, TABLES_BYTES, PROGRAM_BYTES];
        messages.into_iter().chain(mailboxes).chain(fixed).fold(0, u64::saturating_add)
    }

    /// Items that the queue may have.
    pub const fn queue_items(&self) -> u64 {
        self.schedule / SCHEDULED_BYTES_MAX
    }

    /// Bytes of rows that changes copy until they are stored. Each takes 56 bytes, and 29 in the
    /// newest view.
    const fn copied_rows(&self) -> u64 {
        self.open_views.saturating_mul(2)
    }

    fn refusal(&self) -> String {
        format!(
            "`limits.memory` is {}, but in the worst case the server would use {}: {}. Lower the largest of these \
             settings (a lower `limits.message_size` also lowers the minimum of three of them), or raise \
             `limits.memory`",
            size(self.memory),
            size(self.worst_case()),
            self.parts()
        )
    }

    /// The parts of the memory, each by its setting.
    pub fn parts(&self) -> String {
        format!(
            "{} of `limits.connections` ({} of {}), twice {} of `limits.incoming_bytes`, {} of \
             `limits.reading_bytes`, {} of `limits.summary_bytes`, {} of summaries that are made, {} of \
             `store.cache`, {} of old views; {} of mail to other domains, {} of sort keys, {} of kept results, {} of the \
             search index; {} of the queue's {} items, {} of Sieve scripts, {} of shared mailboxes; {} of \
             `login.argon2_memory`, {} of tables, {} of the program itself; messages of at \
             most {} (`limits.message_size`); beside `limits.memory`, {} of views of open mailboxes, {} of rows that \
             changes copy; {} of summaries of mail that scripts send on or that the queue takes; {} of what a script \
             wants",
            size(self.connections.saturating_mul(CONNECTION_BYTES)),
            self.connections,
            size(CONNECTION_BYTES),
            size(self.incoming),
            size(self.reading),
            size(self.summaries),
            size(self.finished),
            size(self.cache),
            size(self.old_views),
            size(self.queue),
            size(self.keys),
            size(self.contexts),
            size(self.index),
            size(self.schedule),
            self.queue_items(),
            size(self.scripts),
            size(self.shared),
            size(self.hashes),
            size(TABLES_BYTES),
            size(PROGRAM_BYTES),
            size(self.message),
            size(self.open_views),
            size(self.copied_rows()),
            size(self.sent_on),
            size(OUTCOMES_BYTES_BESIDE),
        )
    }
}

/// The sum of some numbers of bytes.
const fn sum(parts: &[u64]) -> u64 {
    match parts {
        [first, rest @ ..] => *first + sum(rest),
        [] => 0,
    }
}

/// Sets `limits.message_size` to what "auto" means on this machine. Many parts of the server use
/// it.
pub fn set_message_size(config: &mut Config) {
    config.limits.message_size = Auto::Is(ByteSize::b(Plan::of(config).message));
}

/// As the configuration writes it.
pub fn size(bytes: u64) -> String {
    ByteSize::b(bytes).display().iec().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn plan(text: &str, there_is: u64) -> Result<Plan, String> {
        let config = Config::parse(std::path::Path::new("posthaste.toml"), text).unwrap();
        let plan = Plan::within(&config, there_is, 1);
        plan.check().map(|()| plan)
    }

    #[test]
    fn an_account_has_as_many_messages_as_its_views_have_room_for() {
        let messages = |text: &str, there_is| plan(text, there_is).unwrap().account_messages;
        assert_eq!(messages("", GIB / 4), 289_262);
        assert_eq!(messages("", GIB), 1_157_049);
        assert_eq!(messages("", 8 * GIB), 5_000_000);
        assert_eq!(messages("[limits]\naccount_messages = 7000000\n", GIB / 4), 7_000_000);
        assert_eq!(messages("[limits]\naccount_messages = 0\n", GIB / 4), 0);
    }

    #[test]
    fn a_large_machine_has_the_most_that_gains_anything() {
        let plan = plan("", 64 * GIB).unwrap();
        assert_eq!((plan.memory, plan.connections, plan.incoming), (48 * GIB, 16_000, GIB));
        assert_eq!((plan.reading, plan.summaries, plan.cache), (256 << 20, 512 << 20, 256 << 20));
    }

    #[test]
    fn old_views_are_a_part_of_the_worst_case() {
        let of = |there_is| {
            let plan = plan("", there_is).unwrap();
            assert!(plan.parts().contains(&format!("{} of old views", size(plan.old_views))));
            let more = Plan { old_views: plan.old_views + 5, ..plan };
            assert_eq!(more.worst_case(), plan.worst_case() + 5);
            plan.old_views
        };
        assert_eq!((of(GIB / 4), of(64 * GIB)), (256 << 10, 128 << 20));
        assert!(of(4 * GIB) > 64 << 20);
    }

    #[test]
    fn newest_views_have_a_quarter_of_what_the_plan_leaves() {
        let of = |text: &str, there_is| {
            let plan = plan(text, there_is).unwrap();
            let named =
                format!("beside `limits.memory`, {} of views of open mailboxes", size(plan.open_views));
            assert!(plan.parts().contains(&named), "{}", plan.parts());
            (plan.open_views, plan)
        };
        assert_eq!(of("", GIB / 4).0, 16 << 20);
        assert_eq!(of("", 64 * GIB).0, 4 * GIB);
        let (leaves_half, leaves_nothing) =
            ("[limits]\nmemory = \"1 GiB\"\n", "[limits]\nmemory = \"3 GiB\"\n");
        assert_eq!(of(leaves_half, 2 * GIB).0, GIB / 4);
        assert_eq!(of(leaves_nothing, 3 * GIB).0, GIB / 4);
        // Sessions may open seven eighths of them: two million messages of one mailbox, too.
        assert!(of("", GIB).0 / 8 * 7 >= 2_000_000 * (VIEW_BYTES / 4));
        // An account may open half of them: by default all that it may have.
        for there_is in [GIB / 4, GIB, 3 * GIB, 64 * GIB] {
            let (open_views, plan) = of("", there_is);
            assert!(plan.account_messages * (VIEW_BYTES / 4) <= open_views / 2, "{there_is}");
            assert_eq!(Plan { open_views: 0, ..plan }.worst_case(), plan.worst_case());
        }
    }

    #[test]
    fn what_comes_beside_the_bound_is_named_last() {
        let ends = |text: &str| {
            let parts = plan(text, GIB / 4).unwrap().parts();
            parts.split_once("mailboxes, ").map(|(_, ends)| ends.to_owned()).unwrap()
        };
        // Ten summaries of 20 times a message of 256 KiB, and of 20 KiB.
        let of_rows = "32.0 MiB of rows that changes copy; ";
        let of_mail = "of summaries of mail that scripts send on or that the queue takes; ";
        let of_script = "5.0 MiB of what a script wants";
        assert_eq!(ends(""), format!("{of_rows}50.2 MiB {of_mail}{of_script}"));
        // A compressed body is in memory as well.
        assert_eq!(ends("[store]\ncompress = \"zstd\"\n"), format!("{of_rows}52.7 MiB {of_mail}{of_script}"));
    }

    #[test]
    fn each_table_is_a_part_of_the_worst_case() {
        let plan = plan("", 4 * GIB).unwrap();
        // What any server has, and parts that grow with the memory.
        let bounds = [LOGINS_BYTES_MAX, HOSTS_BYTES_MAX, REPORTS_BYTES_MAX, QUOTAS_BYTES_MAX];
        assert!(TABLES_BYTES >= bounds.iter().sum::<u64>() + DNS_BYTES_MAX + STS_BYTES_MAX);
        assert!(TABLES.contains(&ANSWERS_BYTES_MAX));
        assert_eq!(TABLES_BYTES, TABLES.iter().sum::<u64>());
        for more in [
            Plan { schedule: plan.schedule + 5, ..plan },
            Plan { scripts: plan.scripts + 5, ..plan },
            Plan { shared: plan.shared + 5, ..plan },
        ] {
            assert_eq!(more.worst_case(), plan.worst_case() + 5);
        }
        assert!(plan.parts().contains(&format!("{} of tables", size(TABLES_BYTES))));
        assert!(plan.parts().contains(&format!("the queue's {} items", plan.queue_items())));
        assert_eq!((plan.scripts, plan.shared), (SCRIPTS_BYTES_MAX, SHARED_BYTES_MAX));
    }

    #[test]
    fn the_defaults_fit_every_machine_of_a_gibibyte() {
        for there_is in [GIB, 2 * GIB, 3 * GIB, 5 * GIB, 8 * GIB] {
            let plan = plan("", there_is).unwrap();
            assert!(plan.worst_case() <= there_is / 4 * 3, "{there_is}: {}", plan.parts());
            assert!(plan.connections >= CONNECTIONS_LEAST);
        }
    }

    #[test]
    fn a_small_machine_takes_smaller_messages_from_fewer_clients() {
        let of = |there_is| {
            let plan = plan("", there_is).unwrap();
            assert!(plan.worst_case() <= there_is / 4 * 3, "{there_is}: {}", plan.parts());
            (plan.message, plan.connections >= CONNECTIONS_LEAST)
        };
        assert_eq!(of(GIB / 4), (256 << 10, false));
        assert_eq!(of(GIB / 2), (16 << 20, true));
        assert_eq!(of(GIB), (64 << 20, true));
    }

    #[test]
    fn the_error_on_a_machine_that_is_too_small_names_what_to_lower() {
        let refusal = plan("[limits]\nmessage_size = \"64 MiB\"", GIB / 4).unwrap_err();
        assert!(refusal.contains("`limits.message_size`") && refusal.contains("192.0 MiB"), "{refusal}");
        assert!(plan("", GIB / 8).is_err());
        let small =
            "[limits]\nmessage_size = \"10 MiB\"\nmemory = \"340 MiB\"\n[login]\nargon2_memory = \"7 MiB\"";
        let plan = plan(small, GIB / 4).unwrap();
        assert!(plan.worst_case() <= 340 << 20 && plan.connections >= CONNECTIONS_LEAST, "{}", plan.parts());
    }

    #[test]
    fn a_budget_that_is_set_bounds_the_largest_message() {
        let plan = plan("[limits]\nreading_bytes = \"20 MiB\"", 4 * GIB).unwrap();
        assert_eq!((plan.message, plan.reading), (16 << 20, 20 << 20));
    }

    #[test]
    fn memory_settings_are_used_or_refused_if_too_large() {
        let set = "[limits]\nconnections = 100\nincoming_bytes = \"1 GiB\"\nmemory = \"4 GiB\"";
        let plan_set = plan(set, GIB).unwrap();
        assert_eq!((plan_set.connections, plan_set.incoming, plan_set.memory), (100, GIB, 4 * GIB));
        let refusal = plan(&set.replace("connections = 100", "connections = 4000"), GIB).unwrap_err();
        assert!(refusal.contains("4.3 GiB of `limits.connections` (4000 of 1.1 MiB)"), "{refusal}");
        assert!(refusal.starts_with("`limits.memory` is 4.0 GiB"), "{refusal}");
    }

    #[test]
    fn a_bound_over_the_memory_that_there_is_gives_a_warning() {
        let set = plan("[limits]\nmemory = \"4 GiB\"", GIB).unwrap();
        let warning = set.warning_with(GIB).unwrap();
        assert!(
            warning.starts_with("`limits.memory` is 4.0 GiB") && warning.contains("has 1.0 GiB"),
            "{warning}"
        );
        assert!(warning.contains("Lower `limits.memory`"), "{warning}");
        assert_eq!(set.warning_with(4 * GIB), None);
        assert_eq!(plan("", GIB).unwrap().warning_with(GIB), None);
    }
}
