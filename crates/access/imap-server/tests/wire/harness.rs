//! A server of its own for each test: the in-memory engine (or a cluster:
//! `posthaste_testkit::TestEngine`), port 0, one account.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use posthaste_delivery::{Conversions, Delivery, DeliveryOptions, Renewals};
use posthaste_directory::{
    AccountChange, Client, Directory, Identifier, NewAccount, Policy, Precompute, Referral, Service,
};
use posthaste_imap_server::{ImapOptions, ImapService, ProgressTimes, RecordOfActs};
use posthaste_indexing::{Query, Scope, SearchIndex};
use posthaste_mail_model::{AccountId, Flag, MailboxId, MailboxName, NumSet, Rights, Secret, Uid};
use posthaste_net::{
    Accounts, ByteBudget, Certificates, Endpoint, Listener, Mode, ServeOptions, Shutdown, ShutdownTrigger,
};
use posthaste_store::{Engine, IncomingMessage, Place, Serve, Store, StoreError, StoreOptions, SummaryOf};
use posthaste_testkit::{FaultyDirectory, TestEngine, Wire};

/// The account every test has.
pub const USER: &str = "ana@example.org";
/// Its password.
pub const PASSWORD: &str = "sesame street";

/// A running server.
pub struct Server {
    runtime: tokio::runtime::Runtime,
    trigger: Option<ShutdownTrigger>,
    address: SocketAddr,
    engine: TestEngine,
    directory: Arc<Directory>,
    store: Store,
    service: Arc<ImapService>,
}

/// Conversions that are counted.
pub struct Counted {
    conversions: Conversions,
    served: AtomicUsize,
    summarized: AtomicUsize,
}

impl Counted {
    /// How often a message was converted, and how often a summary was made.
    pub fn counts(&self) -> (usize, usize) {
        (self.served.load(Ordering::Relaxed), self.summarized.load(Ordering::Relaxed))
    }
}

#[async_trait::async_trait]
impl Serve for Counted {
    async fn serve(&self, reader: Place, stored: bytes::Bytes) -> Result<bytes::Bytes, StoreError> {
        self.served.fetch_add(1, Ordering::Relaxed);
        self.conversions.serve(reader, stored).await
    }

    async fn renew(&self, superseded: SummaryOf) -> Result<(), StoreError> {
        self.conversions.renew(superseded).await
    }

    async fn summarize(&self, reader: Place, served: bytes::Bytes) -> Result<bytes::Bytes, StoreError> {
        self.summarized.fetch_add(1, Ordering::Relaxed);
        self.conversions.summarize(reader, served).await
    }

    fn octets(&self, summary: &[u8]) -> Option<u32> {
        self.conversions.octets(summary)
    }

    fn keeps_summaries(&self) -> bool {
        self.conversions.keeps_summaries()
    }
}

impl Server {
    /// With the defaults.
    pub fn start() -> Self {
        Self::start_with(ImapOptions::default())
    }

    /// With other options.
    pub fn start_with(options: ImapOptions) -> Self {
        Self::start_tls(options, None)
    }

    /// With a certificate.
    pub fn start_tls(options: ImapOptions, certificates: Option<Certificates>) -> Self {
        Self::start_within(options, certificates, ByteBudget::new(256 << 20))
    }

    /// With this much memory for messages that come in.
    pub fn start_within(
        options: ImapOptions,
        certificates: Option<Certificates>,
        budget: ByteBudget,
    ) -> Self {
        let options = unhurried(options);
        Self::start_as(|delivery| ImapService::new(options, delivery, certificates, budget))
    }

    /// With this memory for messages that are read. The largest message has this many bytes.
    pub fn start_reading(reads: ByteBudget, largest: u64) -> Self {
        let options = unhurried(ImapOptions { append_bytes_max: largest, ..ImapOptions::default() });
        Self::start_as(|delivery| {
            ImapService::new(options, delivery, None, ByteBudget::new(256 << 20)).with_reads(reads)
        })
    }

    /// With these limits for each account.
    pub fn start_limited(accounts: Accounts) -> Self {
        Self::start_as(|delivery| {
            ImapService::new(unhurried(ImapOptions::default()), delivery, None, ByteBudget::new(256 << 20))
                .with_accounts(accounts)
        })
    }

    /// With this much memory for results that are kept up to date.
    pub fn start_keeping(contexts: ByteBudget) -> Self {
        Self::start_as(|delivery| {
            ImapService::new(unhurried(ImapOptions::default()), delivery, None, ByteBudget::new(256 << 20))
                .with_contexts(contexts)
        })
    }

    /// With a search index whose task runs, and the index.
    pub fn start_indexing() -> (Self, SearchIndex) {
        let mut index = None;
        let server = Self::start_as(|delivery| {
            let made = SearchIndex::new(delivery.store().clone(), 32 << 20);
            index = Some(made.clone());
            ImapService::new(unhurried(ImapOptions::default()), delivery, None, ByteBudget::new(256 << 20))
                .with_index(made)
        });
        let index = index.expect("an index");
        server.runtime.spawn(index.clone().run());
        (server, index)
    }

    /// Waits until the index knows this many messages of the mailboxes that have segments.
    /// Messages after the last segment are in memory: how many depends on when the task looked.
    pub fn await_indexed(&self, index: &SearchIndex, wanted: u64) {
        let query = [Query::new(Scope::Texts, b"any").expect("a word that is long enough")];
        self.wait(async {
            loop {
                let mut known = 0;
                for (mailbox, _) in index.sizes(None).await.expect("sizes") {
                    known += index.query(mailbox, &query).await.map_or(0, |answer| answer.covered.count());
                }
                if known == wanted {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
    }

    /// On an engine whose directory fails on demand.
    pub fn start_faulty() -> (Self, Arc<FaultyDirectory>) {
        let mut made = None;
        let wrap = |engine| {
            let faulty = Arc::new(FaultyDirectory::new(engine));
            made = Some(Arc::clone(&faulty));
            faulty as Arc<dyn Engine>
        };
        let options = unhurried(ImapOptions::default());
        let service = |delivery| ImapService::new(options, delivery, None, ByteBudget::new(256 << 20));
        let server = Self::start_on(wrap, service);
        (server, made.expect("an engine"))
    }

    /// With a record of administrative acts.
    pub fn start_recording(acts: RecordOfActs) -> Self {
        Self::start_as(|delivery| {
            ImapService::new(unhurried(ImapOptions::default()), delivery, None, ByteBudget::new(256 << 20))
                .with_record_of_acts(acts)
        })
    }

    fn start_as(service: impl FnOnce(Delivery) -> ImapService) -> Self {
        Self::start_on(|engine| engine, service)
    }

    /// On an engine in front of the test's own.
    pub fn start_on(
        wrap: impl FnOnce(Arc<dyn Engine>) -> Arc<dyn Engine>,
        service: impl FnOnce(Delivery) -> ImapService,
    ) -> Self {
        Self::start_storing(StoreOptions::default(), wrap, service)
    }

    /// With conversions of rich mail, whose items are kept or not when a client asks for them.
    pub fn start_converting(precompute: Precompute) -> Self {
        Self::start_counting(precompute, StoreOptions::default().served_bytes).0
    }

    /// The same with this much memory for conversions, which are counted.
    pub fn start_counting(precompute: Precompute, served_bytes: usize) -> (Self, Arc<Counted>) {
        let conversions = Conversions::new(ByteBudget::new(256 << 20)).with_precompute(precompute);
        let counted = Counted { conversions, served: AtomicUsize::new(0), summarized: AtomicUsize::new(0) };
        let counted = Arc::new(counted);
        let serve = Arc::clone(&counted) as Arc<dyn Serve>;
        let options = StoreOptions { serve, served_bytes, ..StoreOptions::default() };
        let service = |delivery| {
            Renewals::begin(&delivery, &counted.conversions);
            ImapService::new(unhurried(ImapOptions::default()), delivery, None, ByteBudget::new(256 << 20))
        };
        (Self::start_storing(options, |engine| engine, service), counted)
    }

    /// With these options of the store.
    pub fn start_storing(
        options: StoreOptions,
        wrap: impl FnOnce(Arc<dyn Engine>) -> Arc<dyn Engine>,
        service: impl FnOnce(Delivery) -> ImapService,
    ) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let TestEngine { engine, memory } = runtime.block_on(TestEngine::new());
        let engine = TestEngine { engine: wrap(engine), memory };
        let shared = Arc::clone(&engine.engine);
        let store = Store::new(Arc::clone(&shared), options);
        let directory = Directory::with_policy(shared, Policy::cheap_for_tests()).expect("a directory");
        let directory = Arc::new(directory);
        runtime
            .block_on(directory.add(USER, &Secret::new(PASSWORD.to_owned()), NewAccount::default()))
            .expect("an account");
        let delivery = Delivery::new(store.clone(), Arc::clone(&directory), DeliveryOptions::default());
        let service = Arc::new(service(delivery));
        let (trigger, shutdown) = Shutdown::new();
        let address = runtime.block_on(listen(Arc::clone(&service), shutdown));
        Self { runtime, trigger: Some(trigger), address, engine, directory, store, service }
    }

    /// A connection whose greeting was read.
    pub fn connect(&self) -> Wire {
        let mut wire = Wire::connect(self.address);
        wire.expect("* OK [CAPABILITY …] …");
        wire
    }

    /// A connection that has logged in.
    pub fn login(&self) -> Wire {
        let mut wire = self.connect();
        wire.run(&format!("C: l LOGIN {USER} \"{PASSWORD}\"\nS: l OK [CAPABILITY …] Logged in"));
        wire
    }

    /// Makes another account, with the same password.
    pub fn add_account(&self, name: &str, new: NewAccount) {
        let password = Secret::new(PASSWORD.to_owned());
        self.wait(async {
            let account = self.directory.add(name, &password, new).await.expect("an account");
            let service =
                Delivery::new(self.store.clone(), Arc::clone(&self.directory), DeliveryOptions::default());
            service.mailboxes(&account).await.expect("mailboxes");
        });
    }

    /// A connection that has logged in to another account.
    pub fn login_as(&self, name: &str) -> Wire {
        let mut wire = self.connect();
        wire.run(&format!("C: l LOGIN {name} \"{PASSWORD}\"\nS: l OK [CAPABILITY …] Logged in"));
        wire
    }

    /// Makes a mailbox past IMAP, as an import does.
    pub fn make_mailbox(&self, name: &str) {
        let name = MailboxName::new(name).expect("name");
        self.wait(async {
            let account = self.directory.account(USER).await.expect("directory").expect("account");
            self.store.create(account.id, &name, None).await.expect("a mailbox");
        });
    }

    /// Gives rights in a mailbox, as an administrator does in another process.
    pub fn grant(&self, owner: &str, mailbox: &str, who: &str, rights: &str) {
        let rights = Rights::parse(rights.as_bytes()).expect("rights");
        let name = MailboxName::new(mailbox).expect("name");
        self.wait(async {
            let owner = self.directory.account(owner).await.expect("directory").expect("account");
            let list = self.store.list(owner.id).await.expect("list");
            let mailbox = list.find(&name).expect("mailbox").id;
            let who = Identifier::parse(who).expect("identifier");
            self.directory.acls().set_rights(&owner, mailbox, &who, |_| rights).await.expect("a list");
        });
    }

    /// A connection of another account, which is made.
    pub fn login_as_new(&self, name: &str) -> Wire {
        self.add_account(name, NewAccount::default());
        self.login_as(name)
    }

    /// A connection with a mailbox open.
    pub fn select(&self, mailbox: &str) -> Wire {
        let mut wire = self.login();
        wire.run(&format!("C: s SELECT {mailbox}\nS~ s OK [READ-WRITE] …"));
        wire
    }

    /// A session that has appended `count` messages to INBOX.
    pub fn with_messages(&self, count: usize) {
        let mut wire = self.login();
        for n in 1..=count {
            let text = format!("Subject: number {n}\r\n\r\nBody {n}.\r\n");
            wire.run(&format!("C: a APPEND INBOX {{{}}}\nS: + …", text.len()));
            wire.send(format!("{text}\r\n").as_bytes());
            wire.skip_to("a OK [APPENDUID …] …");
        }
    }

    /// Appends one message, as `arguments` say: `INBOX (\\Seen) "01-Jan-2020 10:00:00 +0000"`.
    pub fn put(&self, arguments: &str, message: &[u8]) {
        let mut wire = self.login();
        wire.run(&format!("C: p APPEND {arguments} {{{}}}\nS: + …", message.len()));
        wire.send(message);
        wire.send(b"\r\n");
        wire.skip_to("p OK [APPENDUID …] …");
    }

    /// Puts a message into INBOX past IMAP, as LMTP does.
    pub fn deliver(&self, message: &[u8]) {
        self.deliver_with(message, Precompute::Delivery);
    }

    /// The same, with the items of rich mail made then or later.
    pub fn deliver_with(&self, message: &[u8], precompute: Precompute) {
        let options = DeliveryOptions { precompute, ..DeliveryOptions::default() };
        let service = Delivery::new(self.store.clone(), Arc::clone(&self.directory), options);
        let message = bytes::Bytes::copy_from_slice(message);
        self.wait(async {
            let recipient = service.resolve(USER).await.expect("a recipient");
            let delivered = service.deliver(message, &[recipient]).await;
            assert!(delivered.iter().all(Result::is_ok), "{delivered:?}");
        });
    }

    /// Stores a body with this summary in INBOX, as an earlier version may have done.
    pub fn store(&self, bytes: bytes::Bytes, summary: bytes::Bytes, flags: &[Flag]) -> Uid {
        let (_, inbox) = self.mailbox(USER, "INBOX");
        let (body, flags) = (self.store.new_body_id(), flags.to_vec());
        let message = IncomingMessage { bytes, summary, body, flags, date: 1_000_000_000, saved: Some(1) };
        let inbox = self.store.destination(inbox);
        self.wait(inbox.append(vec![message])).expect("a message").uids[0]
    }

    /// A session in an INBOX that holds this one message; its line ends are made CRLF.
    pub fn with_message(&self, message: &str) -> Wire {
        self.put("INBOX", message.replace('\n', "\r\n").as_bytes());
        self.select("INBOX")
    }

    /// Records with annotations of messages, of all accounts.
    pub fn message_annotations(&self) -> usize {
        let scan = self.engine.engine.directory_scan("annotate/", None, 1000);
        self.wait(scan).expect("records").len()
    }

    /// Store and directory, for what others do while a command runs.
    pub fn behind(&self) -> (Store, Arc<Directory>) {
        (self.store.clone(), Arc::clone(&self.directory))
    }

    /// Whose a mailbox is, and which one.
    pub fn mailbox(&self, owner: &str, name: &str) -> (AccountId, MailboxId) {
        let name = MailboxName::new(name).expect("a name");
        self.wait(async {
            let account = self.directory.account(owner).await.expect("directory").expect("account");
            let list = self.store.list(account.id).await.expect("list");
            (account.id, list.find(&name).expect("mailbox").id)
        })
    }

    /// Runs a future until it is ready. It hides its type: all share the runtime's long code.
    pub fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        let future: std::pin::Pin<&mut dyn Future<Output = T>> = std::pin::pin!(future);
        self.runtime.block_on(future)
    }

    /// Removes a message past IMAP, as retention does.
    pub fn expunge_elsewhere(&self, mailbox: &str, uid: u32) {
        let name = MailboxName::new(mailbox).expect("a name");
        self.wait(async {
            let account = self.directory.account(USER).await.expect("directory").expect("account");
            let list = self.store.list(account.id).await.expect("list");
            let mailbox = self.store.open(list.find(&name).expect("mailbox").id).await.expect("open");
            mailbox.remove(&NumSet::range(uid, uid)).await.expect("removed");
        });
    }

    /// Its own counts.
    pub fn service(&self) -> &ImapService {
        &self.service
    }

    /// Limits the account: octets as a quota counts them, and messages.
    pub fn limit(&self, change: AccountChange) {
        self.wait(self.directory.set(USER, change)).expect("a changed account");
    }

    /// Sends logins to the account elsewhere, as an administrator does in another process.
    pub fn refer(&self, referral: Option<Referral>) {
        self.wait(self.directory.set_referral(USER, referral)).expect("a changed account");
    }

    /// Another server has a mailbox of hers from now on, or no longer.
    pub fn refer_mailbox(&self, mailbox: &str, url: Option<&str>) {
        let mailbox = MailboxName::new(mailbox).expect("a name");
        let set = self.directory.set_mailbox_referral(USER, &mailbox, url);
        self.wait(set).expect("a changed account");
    }

    /// Lets sessions know what changed of their accounts, as the server does every now and then.
    pub fn compare_accounts(&self) {
        self.wait(async {
            let watch = self.directory.watch_accounts(Duration::from_secs(3600));
            // One round ends before the first pause.
            tokio::select! {
                biased;
                () = watch => {}
                () = tokio::task::yield_now() => {}
            }
        });
    }

    /// Disables the account, as an administrator does in another process, and returns once the
    /// server has noticed.
    pub fn disable(&self) {
        self.wait(async {
            let client = Client { address: [127, 0, 0, 1].into(), service: Service::Imap };
            let password = Secret::new(PASSWORD.to_owned());
            let login = self.directory.login(USER, &password, client).await.expect("a login");
            let mut lease = self.directory.lease(&login);
            let change = AccountChange { disabled: Some(true), ..AccountChange::default() };
            self.directory.set(USER, change).await.expect("a changed account");
            tokio::select! {
                () = lease.ended() => {}
                () = self.directory.watch_accounts(Duration::from_millis(1)) => {}
            }
        });
    }

    /// Changes another account.
    pub fn limit_of(&self, name: &str, change: AccountChange) {
        self.wait(self.directory.set(name, change)).expect("a changed account");
    }

    /// Asks the server to stop.
    pub fn shut_down(&mut self) {
        drop(self.trigger.take());
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Makes the engine forget which messages of a mailbox were expunged; `false` if it cannot be
    /// made to.
    pub fn forget_expunged(&self, mailbox: &str) -> bool {
        let Some(memory) = &self.engine.memory else { return false };
        memory.forget_expunged(self.mailbox_id(mailbox));
        true
    }

    /// Makes the engine lose the summaries of messages of INBOX; `false` if it cannot be made to.
    pub fn damage_summaries(&self, uids: &[u32]) -> bool {
        let Some(memory) = &self.engine.memory else { return false };
        memory.damage_summaries(self.mailbox_id("INBOX"), &uids.iter().copied().collect());
        true
    }

    /// Puts a message into INBOX with this summary, which delivery did not make.
    pub fn put_with_summary(&self, message: &'static [u8], summary: &'static [u8]) {
        let incoming = IncomingMessage {
            bytes: bytes::Bytes::from_static(message),
            summary: bytes::Bytes::from_static(summary),
            body: self.store.new_body_id(),
            flags: Vec::new(),
            date: 0,
            saved: None,
        };
        let inbox = self.store.destination(self.mailbox_id("INBOX"));
        self.wait(inbox.append(vec![incoming])).expect("a message");
    }

    /// Makes the engine lose the body of a message of INBOX; `false` if it cannot be made to.
    pub fn lose_body(&self, uid: u32) -> bool {
        let Some(memory) = &self.engine.memory else { return false };
        let body = self.wait(async {
            let mailbox = self.store.open(self.mailbox_id_of("INBOX").await).await.expect("mailbox");
            mailbox.body_of(Uid::new(uid).expect("a UID")).await.expect("summary").expect("message")
        });
        memory.lose_body(body);
        true
    }

    fn mailbox_id(&self, name: &str) -> MailboxId {
        self.wait(self.mailbox_id_of(name))
    }

    async fn mailbox_id_of(&self, name: &str) -> MailboxId {
        let account = self.directory.account(USER).await.expect("directory").expect("account");
        let list = self.store.list(account.id).await.expect("list");
        list.find(&MailboxName::new(name).expect("name")).expect("mailbox").id
    }
}

/// One response with all its literals, line end included.
pub fn response(wire: &mut Wire) -> Vec<u8> {
    let mut whole = Vec::new();
    loop {
        let line = wire.line().expect("a response");
        whole.extend_from_slice(line.as_bytes());
        whole.extend_from_slice(b"\r\n");
        let count = line.strip_suffix('}').and_then(|line| line.rsplit_once('{')).map(|(_, count)| count);
        match count.and_then(|count| count.parse().ok()) {
            Some(count) => whole.extend_from_slice(&wire.take(count)),
            None => return whole,
        }
    }
}

/// The answer to one item of one message: the text between the outer parentheses.
pub fn fetch(wire: &mut Wire, number: u32, item: &str) -> Vec<u8> {
    wire.send(format!("f FETCH {number} {item}\r\n").as_bytes());
    let whole = response(wire);
    wire.expect("f OK …");
    let start = format!("* {number} FETCH (");
    let inner = whole.strip_prefix(start.as_bytes()).and_then(|rest| rest.strip_suffix(b")\r\n"));
    inner.unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&whole))).to_vec()
}

/// The same as text.
pub fn fetch_text(wire: &mut Wire, number: u32, item: &str) -> String {
    String::from_utf8(fetch(wire, number, item)).expect("UTF-8")
}

/// How a literal is written after its label.
pub fn literal(label: &str, content: &str) -> String {
    format!("{label} {{{}}}\r\n{content}", content.len())
}

/// The numbers of a `* SEARCH` response, or the tagged response if it does not end in OK.
pub fn search(wire: &mut Wire, keys: &str) -> String {
    wire.send(format!("q SEARCH {keys}\r\n").as_bytes());
    let lines = wire.skip_to("q …");
    match lines.as_slice() {
        [numbers, end] if end.starts_with("q OK ") => match numbers.strip_prefix("* SEARCH") {
            Some(numbers) => numbers.trim_start().to_owned(),
            None => numbers.clone(),
        },
        lines => lines.join("; "),
    }
}

/// Searches and compares: keys on the left, numbers on the right. Fails with all differences.
pub fn searches(wire: &mut Wire, rows: &[(&str, &str)]) {
    let mut wrong = Vec::new();
    for (keys, numbers) in rows {
        let answer = search(wire, keys);
        if answer != *numbers {
            wrong.push(format!("SEARCH {keys}: expected {numbers:?}, got {answer:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// On a busy machine any command may take long enough for INPROGRESS. A test that wants it sets
/// other times.
pub fn unhurried(mut options: ImapOptions) -> ImapOptions {
    if options.progress == ProgressTimes::default() {
        options.progress.first = Duration::from_secs(3600);
    }
    options
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shut_down();
    }
}

async fn listen(service: Arc<ImapService>, shutdown: Shutdown) -> SocketAddr {
    let endpoint = Endpoint { address: SocketAddr::from(([127, 0, 0, 1], 0)), mode: Mode::Plain };
    let listener = Listener::bind(&endpoint).expect("a port");
    let address = listener.local_addr();
    let mut options = ServeOptions::new(shutdown.clone());
    options.grace = Duration::from_secs(5);
    tokio::spawn(listener.serve(options, move |connection| {
        let (service, shutdown) = (Arc::clone(&service), shutdown.clone());
        service.serve(connection, shutdown)
    }));
    address
}
