//! Commands, for a client: RFC 9051 §6. A client must wait before most literals, so the output
//! marks these places.

use posthaste_mail_model::{Flag, ModSeq};

use super::{fits_quotes, number, page_range, part_path, section_head};
use crate::chars::is_astring_char;
use crate::command::{
    Access, AppendContent, AppendForm, AppendMessage, AppendText, CatenatePart, Command, CommandBody,
    FetchItem, FetchModifiers, ListArgs, ListReturn, ListSelection, ListSyntax, Qresync, SelectParams,
    SeqMatch, StatusItem, StoreAction, StoreAnswer, UrlFetchItem,
};
use crate::limits::LITERAL_MINUS_BYTES_MAX;
use crate::{
    Annotation, Bound, Depth, EntryName, ListPattern, MailboxArg, MessageSet, NameEncoding, Numbering,
    PageRange, Partial, SequenceSet, SetRange,
};

/// Which literals may be sent without waiting: RFC 7888.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum LiteralStyle {
    /// None.
    #[default]
    Sync,
    /// Those of up to 4,096 bytes: LITERAL-.
    Minus,
    /// All: LITERAL+.
    Plus,
}

/// Whether a literal may hold NUL (RFC 3516 §4.4).
#[derive(Clone, Copy)]
enum LiteralForm {
    Literal,
    Literal8,
}

/// The bytes of a command and where to pause in them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EncodedCommand {
    /// All of it, line end included.
    pub bytes: Vec<u8>,
    /// Rising offsets before which the client waits for `+`; empty when all can go at once.
    pub waits: Vec<usize>,
}

impl EncodedCommand {
    /// The pieces between the pauses: send one, wait for `+`, send the next.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.waits.iter().copied());
        let ends = self.waits.iter().copied().chain(std::iter::once(self.bytes.len()));
        starts.zip(ends).filter_map(|(start, end)| self.bytes.get(start..end))
    }
}

/// Prints a command.
pub fn command(command: &Command, names: NameEncoding, style: LiteralStyle) -> EncodedCommand {
    let mut p = CommandPrinter { out: Vec::with_capacity(64), waits: Vec::new(), names, style };
    p.put(command.tag.as_str());
    p.put(" ");
    p.body(&command.body);
    p.put("\r\n");
    EncodedCommand { bytes: p.out, waits: p.waits }
}

pub(super) struct CommandPrinter {
    out: Vec<u8>,
    waits: Vec<usize>,
    names: NameEncoding,
    style: LiteralStyle,
}

impl CommandPrinter {
    pub(super) fn put(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    pub(super) fn number(&mut self, n: u64) {
        number(&mut self.out, n);
    }

    fn literal(&mut self, bytes: &[u8], form: LiteralForm) {
        let follows = match self.style {
            LiteralStyle::Sync => false,
            LiteralStyle::Minus => bytes.len() as u64 <= LITERAL_MINUS_BYTES_MAX,
            LiteralStyle::Plus => true,
        };
        self.put(match form {
            LiteralForm::Literal => "{",
            LiteralForm::Literal8 => "~{",
        });
        self.number(bytes.len() as u64);
        self.put(if follows { "+}\r\n" } else { "}\r\n" });
        if !follows {
            self.waits.push(self.out.len());
        }
        self.out.extend_from_slice(bytes);
    }

    /// `string`. NUL has no place in one and becomes `?`.
    pub(super) fn string(&mut self, text: &[u8]) {
        if fits_quotes(text) {
            super::quoted(&mut self.out, text);
        } else if memchr::memchr(0, text).is_none() {
            self.literal(text, LiteralForm::Literal);
        } else {
            let text: Vec<u8> = text.iter().map(|&b| if b == 0 { b'?' } else { b }).collect();
            self.literal(&text, LiteralForm::Literal);
        }
    }

    pub(super) fn astring(&mut self, text: &[u8]) {
        let atom = !text.is_empty() && text.iter().all(|&b| is_astring_char(b));
        if atom { self.out.extend_from_slice(text) } else { self.string(text) }
    }

    pub(super) fn sp_astring(&mut self, text: &str) {
        self.put(" ");
        self.astring(text.as_bytes());
    }

    pub(super) fn sp_mailbox(&mut self, name: &MailboxArg) {
        self.put(" ");
        self.mailbox(name);
    }

    pub(super) fn mailbox(&mut self, name: &MailboxArg) {
        self.astring(&name.encode(self.names));
    }

    fn words(&mut self, name: &str, words: &[String]) {
        self.put(name);
        words.iter().for_each(|word| self.sp_astring(word));
    }

    pub(super) fn list<T>(&mut self, items: impl IntoIterator<Item = T>, mut one: impl FnMut(&mut Self, T)) {
        self.put("(");
        self.spaced(items, &mut one);
        self.put(")");
    }

    pub(super) fn spaced<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        one: &mut impl FnMut(&mut Self, T),
    ) {
        for (i, item) in items.into_iter().enumerate() {
            if i > 0 {
                self.put(" ");
            }
            one(self, item);
        }
    }

    pub(super) fn set(&mut self, set: &SequenceSet) {
        if set.has_saved() {
            self.put("$");
        }
        for (i, &SetRange { from, to }) in set.ranges().iter().enumerate() {
            if i > 0 || set.has_saved() {
                self.put(",");
            }
            self.bound(from);
            if from != to {
                self.put(":");
                self.bound(to);
            }
        }
    }

    fn bound(&mut self, bound: Bound) {
        match bound {
            Bound::Largest => self.put("*"),
            Bound::Number(n) => self.number(u64::from(n.get())),
        }
    }

    fn flags(&mut self, flags: &[Flag]) {
        self.list(flags, |p, flag| super::flag(&mut p.out, flag));
    }

    pub(super) fn numbered(&mut self, numbering: Numbering, name: &str) {
        if numbering == Numbering::Uid {
            self.put("UID ");
        }
        self.put(name);
        self.put(" ");
    }

    fn body(&mut self, body: &CommandBody) {
        use CommandBody as B;
        match body {
            B::Capability => self.put("CAPABILITY"),
            B::Noop => self.put("NOOP"),
            B::Logout => self.put("LOGOUT"),
            B::StartTls => self.put("STARTTLS"),
            B::Namespace => self.put("NAMESPACE"),
            B::GetJmapAccess => self.put("GETJMAPACCESS"),
            B::Idle => self.put("IDLE"),
            B::Check => self.put("CHECK"),
            B::Close => self.put("CLOSE"),
            B::Unselect => self.put("UNSELECT"),
            B::Unauthenticate => self.put("UNAUTHENTICATE"),
            B::CompressDeflate => self.put("COMPRESS DEFLATE"),
            B::Authenticate { mechanism, initial } => {
                self.put("AUTHENTICATE ");
                self.put(mechanism);
                if let Some(initial) = initial {
                    self.initial_response(initial.expose());
                }
            }
            B::Login { user, password } => {
                self.put("LOGIN");
                self.sp_astring(user);
                self.put(" ");
                self.astring(password.expose());
            }
            B::Id(pairs) => self.id(pairs.as_deref()),
            B::Enable(capabilities) => {
                self.put("ENABLE ");
                self.spaced(capabilities, &mut |p, c: &crate::Capability| p.put(c.as_str()));
            }
            B::UidBatches { size, batches } => {
                self.put("UIDBATCHES ");
                self.number(u64::from(*size));
                if let Some((first, last)) = batches {
                    self.put(" ");
                    self.number(u64::from(*first));
                    self.put(":");
                    self.number(u64::from(*last));
                }
            }
            B::CancelUpdate(tags) => {
                self.put("CANCELUPDATE");
                for tag in tags {
                    self.put(" \"");
                    self.put(tag.as_str());
                    self.put("\"");
                }
            }
            B::Language(words) => self.words("LANGUAGE", words),
            B::Comparator(words) => self.words("COMPARATOR", words),
            B::Expunge { uids: None } => self.put("EXPUNGE"),
            B::Expunge { uids: Some(uids) } => {
                self.put("UID EXPUNGE ");
                self.set(&uids.0);
            }
            other => self.mailbox_command(other),
        }
    }

    fn listing(&mut self, name: &str, reference: &MailboxArg, pattern: &ListPattern) {
        self.one_mailbox(name, reference);
        self.put(" ");
        self.pattern(pattern);
    }

    fn mailbox_command(&mut self, body: &CommandBody) {
        use CommandBody as B;
        match body {
            B::Select { mailbox, access, params } => self.select(mailbox, *access, params),
            B::Create { mailbox, special_use } => {
                self.put("CREATE");
                self.sp_mailbox(mailbox);
                if !special_use.is_empty() {
                    self.put(" (USE ");
                    self.list(special_use, |p, u| p.put(&u.to_string()));
                    self.put(")");
                }
            }
            B::Delete(mailbox) => self.one_mailbox("DELETE", mailbox),
            B::Subscribe(mailbox) => self.one_mailbox("SUBSCRIBE", mailbox),
            B::Unsubscribe(mailbox) => self.one_mailbox("UNSUBSCRIBE", mailbox),
            B::Rename { from, to } => {
                self.one_mailbox("RENAME", from);
                self.sp_mailbox(to);
            }
            B::Notify(notify) => self.notify(notify),
            B::MultiSearch(args) => self.multi_search(args),
            B::List(args) => self.list_command(args),
            B::Lsub { reference, pattern } => self.listing("LSUB", reference, pattern),
            B::Rlist { reference, pattern } => self.listing("RLIST", reference, pattern),
            B::Rlsub { reference, pattern } => self.listing("RLSUB", reference, pattern),
            B::Xlist { reference, pattern } => self.listing("XLIST", reference, pattern),
            B::Status { mailbox, items } => {
                self.one_mailbox("STATUS", mailbox);
                self.put(" ");
                self.list(items, |p, item: &StatusItem| p.put(item.name()));
            }
            B::GetQuota(root) => {
                self.put("GETQUOTA");
                self.sp_astring(root);
            }
            B::GetQuotaRoot(mailbox) => self.one_mailbox("GETQUOTAROOT", mailbox),
            B::SetQuota { root, limits } => {
                self.put("SETQUOTA");
                self.sp_astring(root);
                self.put(" ");
                self.list(limits, |p, (name, limit)| {
                    p.put(name);
                    p.put(" ");
                    p.number(*limit);
                });
            }
            B::GetMetadata { mailbox, max_size, depth, entries } => {
                self.put("GETMETADATA");
                self.metadata_options(*max_size, *depth);
                self.sp_mailbox(mailbox);
                self.put(" ");
                self.list(entries, Self::entry_name);
            }
            B::SetMetadata { mailbox, entries } => {
                self.one_mailbox("SETMETADATA", mailbox);
                self.put(" ");
                self.list(entries, Self::annotation);
            }
            B::Acl(command) => {
                self.one_mailbox(command.name(), command.mailbox());
                command.words().iter().for_each(|word| self.sp_astring(word));
            }
            B::GenUrlAuth(urls) => {
                self.put("GENURLAUTH");
                for (url, mechanism) in urls {
                    self.sp_astring(url);
                    self.put(" ");
                    self.put(mechanism);
                }
            }
            B::ResetKey { mailbox, mechanisms } => {
                self.put("RESETKEY");
                if let Some(mailbox) = mailbox {
                    self.sp_mailbox(mailbox);
                }
                for mechanism in mechanisms {
                    self.put(" ");
                    self.put(mechanism);
                }
            }
            B::UrlFetch(urls) => {
                self.put("URLFETCH");
                for UrlFetchItem { url, params } in urls {
                    let Some(params) = params else {
                        self.sp_astring(url);
                        continue;
                    };
                    self.put(" (");
                    self.astring(url.as_bytes());
                    for param in params {
                        self.put(" ");
                        self.put(param.name());
                    }
                    self.put(")");
                }
            }
            B::Append { mailbox, messages } => {
                self.one_mailbox("APPEND", mailbox);
                messages.iter().for_each(|m| self.append_message(m));
            }
            other => self.message_command(other),
        }
    }

    fn message_command(&mut self, body: &CommandBody) {
        use CommandBody as B;
        match body {
            B::Search(args) => self.search(args),
            B::Sort(args) => self.sort(args),
            B::Thread(args) => self.thread(args),
            B::Fetch { set, items, modifiers } => {
                self.numbered(set.numbering(), "FETCH");
                self.set(set.written());
                self.put(" ");
                self.list(items, Self::fetch_item);
                self.fetch_modifiers(modifiers);
            }
            B::Store { set, unchanged_since, action, answer, flags } => {
                self.store(set, *unchanged_since, *action, "FLAGS", *answer);
                self.flags(flags);
            }
            B::StoreAnnotations { set, unchanged_since, changes } => {
                self.store_start(set, *unchanged_since);
                self.put(" ANNOTATION ");
                self.list(changes, Self::value_change);
            }
            B::StoreLabels { set, unchanged_since, action, answer, labels } => {
                self.store(set, *unchanged_since, *action, "X-GM-LABELS", *answer);
                self.list(labels, |p, label| p.astring(label.as_bytes()));
            }
            B::Copy { set, mailbox } => {
                self.numbered(set.numbering(), "COPY");
                self.set(set.written());
                self.sp_mailbox(mailbox);
            }
            B::Replace { set, mailbox, message } => {
                self.numbered(set.numbering(), "REPLACE");
                self.set(set.written());
                self.sp_mailbox(mailbox);
                self.append_message(message);
            }
            B::Move { set, mailbox } => {
                self.numbered(set.numbering(), "MOVE");
                self.set(set.written());
                self.sp_mailbox(mailbox);
            }
            // Each of the others is printed by one of the two functions that call this one.
            _ => {}
        }
    }

    fn initial_response(&mut self, bytes: &[u8]) {
        use base64::Engine as _;
        self.put(" ");
        // RFC 4959 §3: nothing is said by `=`.
        if bytes.is_empty() {
            return self.put("=");
        }
        let text = base64::engine::general_purpose::STANDARD.encode(bytes);
        self.put(&text);
    }

    fn id(&mut self, pairs: Option<&[(String, Option<String>)]>) {
        self.put("ID ");
        let Some(pairs) = pairs else { return self.put("NIL") };
        self.list(pairs, |p, (name, value)| {
            p.string(name.as_bytes());
            p.put(" ");
            match value {
                Some(value) => p.string(value.as_bytes()),
                None => p.put("NIL"),
            }
        });
    }

    fn one_mailbox(&mut self, name: &str, mailbox: &MailboxArg) {
        self.put(name);
        self.sp_mailbox(mailbox);
    }

    fn entry_name(&mut self, name: &EntryName) {
        self.astring(name.as_str().as_bytes());
    }

    fn metadata_options(&mut self, max_size: Option<u64>, depth: Depth) {
        let depth = Some(depth).filter(|depth| *depth != Depth::default());
        if max_size.is_none() && depth.is_none() {
            return;
        }
        self.put(" (");
        if let Some(size) = max_size {
            self.put("MAXSIZE ");
            self.number(size);
        }
        if let Some(depth) = depth {
            self.put(if max_size.is_some() { " DEPTH " } else { "DEPTH " });
            self.put(depth.name());
        }
        self.put(")");
    }

    fn annotation(&mut self, annotation: &Annotation) {
        self.entry_name(&annotation.name);
        self.put(" ");
        self.value(annotation.value.as_deref());
    }

    pub(super) fn value(&mut self, value: Option<&[u8]>) {
        match value {
            None => self.put("NIL"),
            Some(value) if memchr::memchr(0, value).is_some() => {
                self.literal(value, LiteralForm::Literal8);
            }
            Some(value) => self.string(value),
        }
    }

    fn select(&mut self, mailbox: &MailboxArg, access: Access, params: &SelectParams) {
        self.one_mailbox(if access == Access::ReadOnly { "EXAMINE" } else { "SELECT" }, mailbox);
        let mut before = " (";
        for (is_set, name) in [(params.condstore, "CONDSTORE"), (params.annotate, "ANNOTATE")] {
            if is_set {
                self.put(before);
                self.put(name);
                before = " ";
            }
        }
        if let Some(qresync) = &params.qresync {
            self.put(before);
            self.qresync(qresync);
            before = " ";
        }
        self.put(if before == " " { ")" } else { "" });
    }

    fn qresync(&mut self, qresync: &Qresync) {
        self.put("QRESYNC (");
        self.number(u64::from(qresync.uid_validity.value()));
        self.put(" ");
        self.number(qresync.modseq.value());
        if let Some(uids) = &qresync.known_uids {
            self.put(" ");
            self.set(&uids.0);
        }
        if let Some(SeqMatch { seqs, uids }) = &qresync.seq_match {
            self.put(" (");
            self.set(&seqs.0);
            self.put(" ");
            self.set(&uids.0);
            self.put(")");
        }
        self.put(")");
    }

    fn list_command(&mut self, args: &ListArgs) {
        self.put("LIST ");
        let selection = selection_names(args.selection);
        let returns = &args.returns;
        let any_return = *returns != ListReturn::default();
        let several = args.patterns.len() != 1;
        // Something must show that it is the extended syntax, if nothing else does.
        let must_show = args.syntax == ListSyntax::Extended && !any_return && !several;
        if !selection.is_empty() || must_show {
            self.list(selection, Self::put);
            self.put(" ");
        }
        self.astring(&args.reference.encode(self.names));
        self.put(" ");
        match args.patterns.as_slice() {
            [one] => self.pattern(one),
            several => self.list(several, Self::pattern),
        }
        if any_return {
            self.put(" RETURN ");
            let flags = [
                (returns.subscribed, "SUBSCRIBED"),
                (returns.children, "CHILDREN"),
                (returns.special_use, "SPECIAL-USE"),
                (returns.my_rights, "MYRIGHTS"),
                (!returns.status.is_empty(), "STATUS"),
                (!returns.metadata.is_empty(), "METADATA"),
            ];
            self.list(flags.into_iter().filter(|f| f.0), |p, (_, name)| {
                p.put(name);
                if name == "STATUS" {
                    p.put(" ");
                    p.list(&returns.status, |p, item| p.put(item.name()));
                }
                if name == "METADATA" {
                    p.put(" ");
                    p.list(&returns.metadata, Self::entry_name);
                }
            });
        }
    }

    /// Wildcards may stand in an atom here (RFC 9051 §9, list-char).
    fn pattern(&mut self, pattern: &ListPattern) {
        let bytes = pattern.0.encode(self.names);
        let atom = !bytes.is_empty() && bytes.iter().all(|&b| is_astring_char(b) || matches!(b, b'*' | b'%'));
        if atom { self.out.extend_from_slice(&bytes) } else { self.string(&bytes) }
    }

    /// `STORE 1 (UNCHANGEDSINCE 5) +FLAGS.SILENT `
    fn store(
        &mut self,
        set: &MessageSet,
        unchanged_since: Option<ModSeq>,
        action: StoreAction,
        item: &str,
        answer: StoreAnswer,
    ) {
        self.store_start(set, unchanged_since);
        self.put(match action {
            StoreAction::Replace => " ",
            StoreAction::Add => " +",
            StoreAction::Remove => " -",
        });
        self.put(item);
        self.put(if answer == StoreAnswer::Silent { ".SILENT " } else { " " });
    }

    fn store_start(&mut self, set: &MessageSet, unchanged_since: Option<ModSeq>) {
        self.numbered(set.numbering(), "STORE");
        self.set(set.written());
        if let Some(modseq) = unchanged_since {
            self.put(" (UNCHANGEDSINCE ");
            self.number(modseq.value());
            self.put(")");
        }
    }

    fn append_message(&mut self, message: &AppendMessage) {
        self.put(" ");
        if !message.flags.is_empty() {
            self.flags(&message.flags);
            self.put(" ");
        }
        if let Some(date) = message.date {
            super::date_time(&mut self.out, date);
            self.put(" ");
        }
        if !message.annotations.is_empty() {
            self.put("ANNOTATION ");
            self.list(&message.annotations, Self::value_change);
            self.put(" ");
        }
        match &message.content {
            AppendContent::Sent(text) => self.append_text(text),
            AppendContent::Catenate(parts) => {
                self.put("CATENATE ");
                self.list(parts, |p, part| match part {
                    CatenatePart::Url(url) => {
                        p.put("URL ");
                        p.astring(url.as_bytes());
                    }
                    CatenatePart::Text(text) => {
                        p.put(if text.form == AppendForm::Utf8 { "" } else { "TEXT " });
                        p.append_text(text);
                    }
                });
            }
        }
    }

    fn append_text(&mut self, AppendText { form, data }: &AppendText) {
        match form {
            AppendForm::Literal => self.literal(data, LiteralForm::Literal),
            AppendForm::Literal8 => self.literal(data, LiteralForm::Literal8),
            AppendForm::Utf8 => {
                self.put("UTF8 (");
                self.literal(data, LiteralForm::Literal8);
                self.put(")");
            }
        }
    }

    pub(super) fn fetch_item(&mut self, item: &FetchItem) {
        match item {
            FetchItem::Envelope => self.put("ENVELOPE"),
            FetchItem::Body => self.put("BODY"),
            FetchItem::BodyStructure => self.put("BODYSTRUCTURE"),
            FetchItem::Flags => self.put("FLAGS"),
            FetchItem::InternalDate => self.put("INTERNALDATE"),
            FetchItem::Rfc822 => self.put("RFC822"),
            FetchItem::Rfc822Header => self.put("RFC822.HEADER"),
            FetchItem::Rfc822Text => self.put("RFC822.TEXT"),
            FetchItem::Rfc822Size => self.put("RFC822.SIZE"),
            FetchItem::Uid => self.put("UID"),
            FetchItem::ModSeq => self.put("MODSEQ"),
            FetchItem::EmailId => self.put("EMAILID"),
            FetchItem::ThreadId => self.put("THREADID"),
            FetchItem::GmMessageId => self.put("X-GM-MSGID"),
            FetchItem::GmThreadId => self.put("X-GM-THRID"),
            FetchItem::GmLabels => self.put("X-GM-LABELS"),
            FetchItem::Annotation(item) => self.annotation_item(item),
            FetchItem::SaveDate => self.put("SAVEDATE"),
            FetchItem::Preview { lazy } => self.put(if *lazy { "PREVIEW (LAZY)" } else { "PREVIEW" }),
            FetchItem::BodySection { section: of, partial, peek } => {
                self.put(if *peek { "BODY.PEEK" } else { "BODY" });
                if let Some(names) = section_head(&mut self.out, of) {
                    self.list(names, |p, name| p.astring(name.as_bytes()));
                }
                self.put("]");
                self.partial(*partial);
            }
            FetchItem::Binary { part, partial, peek } => {
                self.put(if *peek { "BINARY.PEEK[" } else { "BINARY[" });
                part_path(&mut self.out, &part.0);
                self.put("]");
                self.partial(*partial);
            }
            FetchItem::BinarySize { part } => {
                self.put("BINARY.SIZE[");
                part_path(&mut self.out, &part.0);
                self.put("]");
            }
        }
    }

    fn partial(&mut self, partial: Option<Partial>) {
        if let Some(Partial { offset, count }) = partial {
            self.put("<");
            self.number(offset);
            self.put(".");
            self.number(count.get());
            self.put(">");
        }
    }

    fn fetch_modifiers(&mut self, modifiers: &FetchModifiers) {
        let mut before = " (";
        if let Some(modseq) = modifiers.changed_since {
            self.put(before);
            self.put("CHANGEDSINCE ");
            self.number(modseq.value());
            self.put(if modifiers.vanished { " VANISHED" } else { "" });
            before = " ";
        }
        if let Some(page) = modifiers.partial {
            self.put(before);
            self.page(page);
            before = " ";
        }
        if before == " " {
            self.put(")");
        }
    }

    /// `PARTIAL 1:100`
    pub(super) fn page(&mut self, page: PageRange) {
        self.put("PARTIAL ");
        page_range(&mut self.out, page);
    }
}

/// The names of the options that are on.
pub(super) fn selection_names(selection: ListSelection) -> Vec<&'static str> {
    let all = [
        (selection.subscribed, "SUBSCRIBED"),
        (selection.remote, "REMOTE"),
        (selection.recursive_match, "RECURSIVEMATCH"),
        (selection.special_use, "SPECIAL-USE"),
    ];
    all.into_iter().filter(|n| n.0).map(|n| n.1).collect()
}
