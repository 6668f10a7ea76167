//! Commands about messages: RFC 9051 §6.4. The messages of APPEND: §6.3.12.

use posthaste_mail_model::ModSeq;

use super::{CommandPrinter, LiteralForm};
use crate::command::{
    AppendContent, AppendForm, AppendMessage, AppendText, CatenatePart, CommandBody, FetchItem,
    FetchModifiers, StoreAction, StoreAnswer,
};
use crate::print::{date_time, page_range, part_path, section_head};
use crate::{MessageSet, PageRange, Partial};

impl CommandPrinter {
    pub(super) fn message_command(&mut self, body: &CommandBody) {
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

    pub(super) fn append_message(&mut self, message: &AppendMessage) {
        self.put(" ");
        if !message.flags.is_empty() {
            self.flags(&message.flags);
            self.put(" ");
        }
        if let Some(date) = message.date {
            date_time(&mut self.out, date);
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

    pub(in crate::print) fn fetch_item(&mut self, item: &FetchItem) {
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
            FetchItem::ObjectIds => self.put("OBJECTID"),
            FetchItem::DigestSha1 => self.put("DIGEST.SHA1"),
            FetchItem::GmMessageId => self.put("X-GM-MSGID"),
            FetchItem::GmThreadId => self.put("X-GM-THRID"),
            FetchItem::GmLabels => self.put("X-GM-LABELS"),
            FetchItem::Annotation(item) => self.annotation_item(item),
            FetchItem::SaveDate => self.put("SAVEDATE"),
            FetchItem::CreatedModSeq => self.put("CREATEDMODSEQ"),
            FetchItem::Preview { lazy } => self.put(if *lazy { "PREVIEW (LAZY)" } else { "PREVIEW" }),
            FetchItem::Snippet { name, lazy } => {
                self.put(name.name());
                self.put(if *lazy { " (LAZY=FUZZY)" } else { " (FUZZY)" });
            }
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
            self.number(count);
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
    pub(in crate::print) fn page(&mut self, page: PageRange) {
        self.put("PARTIAL ");
        page_range(&mut self.out, page);
    }
}
