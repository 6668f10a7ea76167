//! A session: the account that logged in, the selected mailbox, the enabled extensions.
//!
//! It does no I/O of its own and has no clock of its own. Both are handed in: the bytes are behind
//! a [`Transport`](crate::transport::Transport), and only the [`Wire`] reads and writes them. So a
//! whole session runs in a test without a socket. `connection` drives the session and the files of
//! `command` change it.

use std::sync::Arc;
use std::time::Duration;

use posthaste_directory::sasl::{Channel, Plaintext};
use posthaste_directory::{Account, Client, Service, Source};
use posthaste_imap_codec::response::Code;
use posthaste_imap_codec::{NameEncoding, Tag};
use posthaste_mail_model::AccountId;
use posthaste_net::{BytePermit, Clock, CommandsBeforeLogin, Connection, Holder, Shutdown};
use posthaste_store::SessionEnd;

use crate::client_line::ClientLine;
use crate::contexts::update::Searcher;
use crate::enabled::Enabled;
use crate::endings::Endings;
use crate::freed::free;
use crate::metadata_reports::ReportedMetadata;
use crate::notify::Notify;
use crate::object_ids;
use crate::offload::Threads;
use crate::options::ClearTextLogin;
use crate::own::{Own, Quiet};
use crate::progress::Reports;
use crate::reply::{Failure, Reply};
use crate::resolve::{self, Asker};
use crate::selected::Selected;
use crate::service::ImapService;
use crate::sync::{self, Changeable};
use crate::table::{Numbers, State};
use crate::transport::{Peer, Transport};
use crate::wire::Wire;

/// Whether the session continues after a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// The session continues with the next command.
    Command,
    /// BYE was printed.
    Close,
}

/// The BYE text for a client that did not log in in time.
pub(crate) const LATE: &str = "You took too long to log in";

/// The BYE text for a session whose view of its mailbox is too old.
pub(crate) const BEHIND: &str =
    "Your account has too many sessions that do not read the changes of their mailboxes, connect again";

/// The longest time that an APPEND waits for the memory of others before it is refused. It is
/// longer than the pause after which a sender is displaced by others. The client only notices a
/// slow connection meanwhile.
pub(crate) const MEMORY_WITHIN: Duration = Duration::from_secs(15);

/// The reply to a client for whose message there is no memory.
pub(crate) fn no_memory() -> Reply {
    Reply::no(Code::Unavailable, "Too many messages are coming in, try again later")
}

/// The account that is logged in, for work during which the session sends reports.
pub(crate) fn logged_in(login: Option<&Account>) -> Result<&Account, Failure> {
    login.ok_or_else(|| Reply::bad("Log in first").into())
}

/// One client's session.
pub(crate) struct Session {
    pub(crate) service: Arc<ImapService>,
    pub(crate) wire: Wire,
    pub(crate) login: Option<Arc<Account>>,
    /// The shutdown of the server, and the end of the login.
    pub(crate) endings: Endings,
    pub(crate) selected: Option<Selected>,
    pub(crate) enabled: Enabled,
    /// The annotations that were reported to the client, after ENABLE METADATA.
    pub(crate) annotations: Option<Box<ReportedMetadata>>,
    /// The events that are reported to the client, after NOTIFY SET.
    pub(crate) notify: Option<Box<Notify>>,
    /// The events of the selected mailbox that are not reported, after NOTIFY SET and NOTIFY
    /// NONE.
    pub(crate) quiet: Quiet,
    /// Bad commands since the last successful command that resets the count.
    pub(crate) bad_commands: u32,
    /// Commands before the login.
    pub(crate) before_login: CommandsBeforeLogin,
    /// The reserved memory of the APPEND in progress, once the session waits for its bytes.
    pub(crate) permit: Option<BytePermit>,
    /// The command may bring messages for which no [`Self::permit`] was begun yet.
    pub(crate) is_permit_due: bool,
    /// The log line about the client, with its ID.
    pub(crate) client: ClientLine,
    /// Ends the session if it holds old views that others need memory for.
    pub(crate) end: Arc<SessionEnd>,
    /// Whether no response is under way, except for what the wire has to send.
    pub(crate) is_at_rest: bool,
}

/// The context of a command that works on the selected mailbox. The caller has checked that a
/// mailbox is selected.
pub(crate) struct Ctx<'s> {
    /// The responses are printed here.
    pub(crate) wire: &'s mut Wire,
    /// The mailbox and the view that was reported.
    pub(crate) selected: &'s mut Selected,
    /// The enabled extensions. Some commands enable CONDSTORE by being used (RFC 7162 §3.1).
    pub(crate) enabled: &'s mut Enabled,
    /// Options and services.
    pub(crate) service: &'s ImapService,
    /// The account that is logged in.
    pub(crate) login: &'s Account,
    /// The events that the client has requested by NOTIFY SET.
    pub(crate) notify: Option<&'s mut Notify>,
}

impl<'s> Ctx<'s> {
    /// The threads that do long work on sets.
    pub(crate) fn threads(&self) -> Threads<'s> {
        Threads { service: self.service, account: self.login.id }
    }
}

impl Session {
    /// A session on a connection, before its greeting. It has the connection's clock.
    pub(crate) fn on(service: Arc<ImapService>, connection: Connection, shutdown: Shutdown) -> Self {
        let (peer, clock) = (Peer::of(&connection), connection.clock().clone());
        Self::new(service, Box::new(connection), peer, clock, shutdown)
    }

    /// A session before its greeting.
    pub(crate) fn new(
        service: Arc<ImapService>,
        transport: Box<dyn Transport>,
        peer: Peer,
        clock: Clock,
        shutdown: Shutdown,
    ) -> Self {
        let wire = Wire::new(transport, peer, clock, &service.options);
        Self {
            service,
            wire,
            endings: Endings::new(shutdown),
            login: None,
            selected: None,
            enabled: Enabled::default(),
            annotations: None,
            notify: None,
            quiet: Quiet::default(),
            bad_commands: 0,
            before_login: CommandsBeforeLogin::default(),
            permit: None,
            is_permit_due: false,
            client: ClientLine::default(),
            end: Arc::default(),
            is_at_rest: false,
        }
    }

    /// Logs the client program once, if it sent ID. For sessions that logged in. posthaste-logging
    /// writes frequent events by their name.
    pub(crate) fn log_client(&mut self) {
        if let Some(client) = self.client.take() {
            let peer = self.wire.peer().address;
            tracing::info!(name: "client", %peer, client = &*client, "client identified itself");
        }
    }

    /// RFC 9051 §3.
    pub(crate) fn state(&self) -> State {
        match (&self.login, &self.selected) {
            (None, _) => State::NotAuthenticated,
            (Some(_), None) => State::Authenticated,
            (Some(_), Some(_)) => State::Selected,
        }
    }

    /// The account that is logged in. The table admits no command here before login; if one gets
    /// here, it fails.
    pub(crate) fn login(&self) -> Result<&Account, Failure> {
        logged_in(self.login.as_deref())
    }

    /// The account for which mailboxes are looked up.
    pub(crate) fn asker(&self) -> Result<Asker<'_>, Failure> {
        Ok(Asker { service: &self.service, login: self.login()? })
    }

    /// The account for which mailboxes are looked up, and what reports that the command of this tag
    /// continues meanwhile (RFC 9585), with [`Wire::reporting`].
    pub(crate) fn reporting<'s>(
        &'s mut self,
        tag: &'s Tag,
    ) -> Result<(Asker<'s>, &'s mut Wire, Reports<'s>), Failure> {
        let Self { wire, service, login, .. } = self;
        let asker = Asker { service, login: logged_in(login.as_deref())? };
        let reports = asker.service.reports(tag);
        Ok((asker, wire, reports))
    }

    /// The context of commands in the selected state.
    pub(crate) fn ctx(&mut self) -> Result<Ctx<'_>, Failure> {
        match (&mut self.selected, &self.login) {
            (Some(selected), Some(login)) => Ok(Ctx {
                wire: &mut self.wire,
                selected,
                enabled: &mut self.enabled,
                service: &self.service,
                login,
                notify: self.notify.as_deref_mut(),
            }),
            _ => Err(Reply::bad("Select a mailbox first").into()),
        }
    }

    /// Whether the account, or the credential of the login, was removed.
    pub(crate) fn is_revoked(&self) -> bool {
        self.endings.is_revoked()
    }

    /// Takes over the administrator's changes of the account.
    pub(crate) fn renew_login(&mut self) {
        if let (Some(account), Some(lease)) = (&mut self.login, self.endings.lease())
            && let Some(newer) = lease.newer(account)
        {
            *account = newer;
        }
    }

    /// The URL of the server to which the account has moved since its login, if it has.
    pub(crate) fn moved_to(&self) -> Option<String> {
        let referral = self.login.as_ref()?.referral.as_deref().filter(|referral| !referral.admits)?;
        Some(referral.url.clone())
    }

    /// Enables IMAP4rev2: names are UTF-8 from now on.
    pub(crate) fn enable_rev2(&mut self) {
        self.enabled.rev2 = true;
        self.wire.names = NameEncoding::Utf8;
    }

    /// Enables UTF8=ACCEPT: names are UTF-8 from now on. Returns whether it was off.
    pub(crate) fn enable_utf8(&mut self) -> bool {
        self.wire.names = NameEncoding::Utf8;
        !std::mem::replace(&mut self.enabled.utf8, true)
    }

    /// Enables CONDSTORE, see [`sync::enable_condstore`]. Returns whether it was off.
    pub(crate) fn enable_condstore(&mut self) -> bool {
        sync::enable_condstore(&mut self.wire, self.selected.as_ref(), &mut self.enabled)
    }

    /// Activates OBJECTID+, see [`object_ids::activate`].
    pub(crate) fn enable_object_ids(&mut self) {
        object_ids::activate(&mut self.wire, &mut self.enabled);
    }

    /// Whether a mailbox of another account is selected.
    pub(crate) fn is_in_mailbox_of_others(&self) -> bool {
        self.selected.as_ref().is_some_and(|selected| selected.owner.is_some())
    }

    /// Takes over changes of the rights in the selected mailbox, and reports them. Ends the session
    /// if it may no longer read it. With the tag of a command that is in no response, it reports
    /// that the command continues meanwhile (RFC 9585).
    pub(crate) async fn renew_rights(&mut self, tag: Option<&Tag>) -> Result<(), Failure> {
        let (Some(selected), Some(login)) = (&mut self.selected, &self.login) else { return Ok(()) };
        if selected.owner.is_none() {
            return Ok(());
        }
        let before = Changeable::of(selected);
        // Boxed: nearly no session needs it. A mailbox that may no longer be read, or of an account
        // that was removed, is treated as deleted.
        let renewing = Box::pin(resolve::renew(&self.service, login, selected));
        let reports = tag.map(|tag| self.service.reports(tag));
        let may_read = Box::pin(self.wire.reporting_if(reports, renewing)).await?;
        match may_read {
            true => {
                sync::report_rights(&mut self.wire, selected, before);
                Ok(())
            }
            false => Err(Failure::Bye(self.why_closed())),
        }
    }

    /// The reason why the session ends if the selected mailbox can no longer be read. Of a
    /// mailbox of others both reasons are named: without `l` nobody learns whether it exists (RFC
    /// 4314 §6).
    pub(crate) fn why_closed(&self) -> &'static str {
        match self.is_in_mailbox_of_others() {
            true => "The selected mailbox was deleted, or may no longer be read",
            false => "The selected mailbox was deleted",
        }
    }

    /// Reports the changes of the selected mailbox, if there is one. With the tag of a command, it
    /// reports that the command continues while these are read (RFC 9585).
    pub(crate) async fn announce(&mut self, numbers: Numbers, tag: Option<&Tag>) -> Result<(), Failure> {
        match &mut self.selected {
            Some(selected) if numbers != Numbers::Silent => {
                let Some(login) = &self.login else { return Ok(()) };
                let by = Searcher { service: &self.service, account: login.id, tag };
                sync::announce(&mut self.wire, selected, by, self.enabled, numbers, Own::Nothing).await
            }
            _ => Ok(()),
        }
    }

    /// Reports changes of annotations by others, after ENABLE METADATA (RFC 5464 §4.4.2). `tag` as
    /// in [`Self::announce`].
    pub(crate) async fn announce_annotations(&mut self, tag: Option<&Tag>) -> Result<(), Failure> {
        let (Some(known), Some(login)) = (&mut self.annotations, &self.login) else { return Ok(()) };
        let reports = tag.map(|tag| self.service.reports(tag));
        // Boxed: nearly no session needs it.
        let reporting = Box::pin(known.report_changes((&*self.service, login.id), &mut self.wire, reports));
        if !reporting.await? {
            self.annotations = None;
            self.wire.say_line(&["* NO There are too many annotations: their changes are not reported"]);
        }
        Ok(())
    }

    /// The time that the server waits for input before login.
    pub(crate) fn login_timeout(&self) -> Duration {
        let within = self.service.options.pre_login_within;
        self.wire.login_left().map_or(within, |left| left.min(within))
    }

    /// Whether the time for the login has passed without one. The session does not wait for a
    /// client that sends commands without a pause, so this is checked before each command.
    pub(crate) fn is_login_late(&self) -> bool {
        self.login.is_none() && self.wire.login_left().is_some_and(|left| left.is_zero())
    }

    /// Begins the permit of an APPEND before the session waits for more of it. An APPEND that
    /// came whole in one read needs none: its bytes are in memory already, and are soon stored.
    pub(crate) fn begin_permit(&mut self) {
        if std::mem::take(&mut self.is_permit_due)
            && let Some(login) = &self.login
        {
            let holder = Holder::Account(login.id.0.to_bytes());
            self.permit.get_or_insert_with(|| self.service.budget.begin(holder));
        }
    }

    /// Gives back the memory of the APPEND that was arriving. The input after it was in the same
    /// allocation, which had this many bytes of it.
    pub(crate) fn give_back_memory(&mut self, bytes: usize) {
        self.is_permit_due = false;
        if let Some(permit) = self.permit.take() {
            free((self.wire.own_input(), permit), bytes);
        }
    }

    /// The client's address, for the log of logins.
    pub(crate) fn source(&self) -> Source {
        let Peer { id, address, .. } = self.wire.peer();
        Source { address: address.ip(), protocol: Service::Imap.name(), session: id }
    }

    /// Whether STARTTLS is available now.
    pub(crate) fn may_start_tls(&self) -> bool {
        self.service.certificates.is_some() && !self.wire.is_encrypted()
    }

    /// Whether a password may be sent over this connection now.
    pub(crate) fn may_send_passwords(&self) -> bool {
        self.wire.is_encrypted() || self.is_allowed(self.service.options.clear_text_login)
    }

    /// The client.
    pub(crate) fn client(&self) -> Client {
        Client { address: self.wire.peer().address.ip(), service: Service::Imap }
    }

    /// The facts of the connection that SASL needs.
    pub(crate) fn channel(&self) -> Channel {
        let allowed = |clear| if self.is_allowed(clear) { Plaintext::Allowed } else { Plaintext::Refused };
        let options = &self.service.options;
        let (plaintext, scram) = (allowed(options.clear_text_login), allowed(options.clear_text_scram));
        let client = Client { address: self.client().address.to_canonical(), service: Service::Imap };
        Channel { plaintext, scram, ..self.wire.channel(client) }
    }

    fn is_allowed(&self, clear: ClearTextLogin) -> bool {
        match clear {
            ClearTextLogin::Never => false,
            ClearTextLogin::Loopback => self.wire.peer().address.ip().to_canonical().is_loopback(),
            ClearTextLogin::Always => true,
        }
    }
}

impl<'s> Ctx<'s> {
    /// The account for which mailboxes are looked up.
    pub(crate) fn asker(&self) -> Asker<'s> {
        Asker { service: self.service, login: self.login }
    }

    /// The owner of the selected mailbox.
    pub(crate) fn selected_owner(&self) -> AccountId {
        self.selected.owner.as_ref().map_or(self.login.id, |owner| owner.id)
    }
}

impl Ctx<'_> {
    /// Does work between two responses. If it takes long, the command reports that it continues
    /// (RFC 9585), as by [`Wire::reporting`].
    pub(crate) async fn reporting<T>(&mut self, tag: &Tag, work: impl Future<Output = T>) -> T {
        self.wire.reporting(self.service.reports(tag), work).await
    }

    /// Enables CONDSTORE, see [`sync::enable_condstore`].
    pub(crate) fn enable_condstore(&mut self) {
        sync::enable_condstore(self.wire, Some(&*self.selected), self.enabled);
    }

    /// Activates OBJECTID+, see [`object_ids::activate`].
    pub(crate) fn enable_object_ids(&mut self) {
        object_ids::activate(self.wire, self.enabled);
    }

    /// Reports the command's changes, and all other changes of the mailbox that the client has
    /// requested.
    pub(crate) async fn announce(
        &mut self,
        tag: &Tag,
        numbers: Numbers,
        own: Own<'_>,
    ) -> Result<(), Failure> {
        let by = Searcher { service: self.service, account: self.login.id, tag: Some(tag) };
        sync::announce(self.wire, self.selected, by, *self.enabled, numbers, own).await
    }
}
