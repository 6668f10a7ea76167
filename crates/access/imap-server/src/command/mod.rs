//! Commands: one file or folder each. Two commands that differ in a word share one. This file calls
//! the handler of each command and sends its result.
//!
//! A handler prints its untagged responses and returns how the command ended. Then all other
//! changes of the mailbox are reported, as far as the table allows. The tagged response is last.

mod acl;
mod annotation_memory;
mod append;
mod authenticate;
mod cancel_update;
mod catenate;
mod changes;
mod close;
mod comparator;
mod compress;
mod copy;
mod create;
mod delete;
mod enable;
mod expunge;
pub(crate) mod fetch;
pub(crate) mod gather;
mod id;
mod idle;
mod jmap_access;
mod language;
mod list;
mod login;
mod logout;
mod lsub;
pub(crate) mod metadata;
mod multi_search;
mod namespace;
mod notify;
mod quota;
mod rename;
mod replace;
mod rlist;
pub(crate) mod search;
mod select;
mod sort;
mod starttls;
mod status;
mod store;
mod store_annotations;
mod store_labels;
mod subscribe;
mod thread;
mod uid_batches;
mod unauthenticate;
mod urlauth;
mod walk;
mod xlist;

use posthaste_imap_codec::response::{Code, StatusKind};
use posthaste_imap_codec::{Command, CommandBody, Tag};
use posthaste_net::NetError;
use posthaste_store::StoreError;

use crate::announce;
use crate::capability;
use crate::heavy::timed;
use crate::message_limit;
use crate::notify::changes_list;
use crate::offload::print_status;
use crate::reply::{Failure, Reply, Verdict};
use crate::selected::Selected;
use crate::session::{Next, Session};
use crate::table::{Legal, Rule, rule_of, uses_numbers};

pub(crate) use crate::reply::DONE;

/// Executes a command and answers it.
pub(crate) async fn dispatch(session: &mut Session, command: Command) -> Result<Next, NetError> {
    let Command { tag, body } = command;
    let rule = rule_of(&body);
    if !rule.legal.in_state(session.state()) {
        session.bad_commands += 1;
        let text = format!("{} cannot be given in this state", rule.name);
        session.wire.say_status(Reply::bad(text).status(Some(tag)));
        return Ok(Next::Command);
    }
    if session.enabled.uid_only && uses_numbers(&body) {
        session.bad_commands += 1;
        let text = format!("{} uses message sequence numbers: UIDONLY is enabled", rule.name);
        session.wire.say_status(Reply::bad(text).with(Code::UidRequired).status(Some(tag)));
        return Ok(Next::Command);
    }
    let next = match body {
        // These commands replace parts of the connection, just after or just before their tagged
        // response.
        CommandBody::Logout => Ok(logout::run(session, tag)),
        CommandBody::StartTls => starttls::run(session, tag).await,
        CommandBody::CompressDeflate => compress::run(session, tag).await,
        CommandBody::Unauthenticate => unauthenticate::run(session, tag).await,
        body => {
            let outcome = match session.is_in_mailbox_of_others() {
                // Boxed: nearly no session needs it.
                true => Box::pin(timed(rule.name, run_renewed(session, &tag, body))).await,
                false => {
                    // Pinned here: a future that is an argument has room for its work twice.
                    let work = std::pin::pin!(run(session, &tag, body));
                    timed(rule.name, work).await
                }
            };
            finish(session, tag, rule, outcome).await
        }
    };
    posthaste_metrics::command(rule.name, session.selected.as_ref().map(Selected::metered));
    next
}

/// Reports changes of the mailbox, then sends the tagged response.
async fn finish(
    session: &mut Session,
    tag: Tag,
    rule: Rule,
    outcome: Result<Reply, Failure>,
) -> Result<Next, NetError> {
    let mut reply = match outcome.map_err(Failure::verdict) {
        Ok(reply) | Err(Verdict::Answer(reply)) => reply,
        Err(Verdict::Bye(text)) => {
            session.wire.say_bye(text);
            return Ok(Next::Close);
        }
        Err(Verdict::HangUp(error)) => return Err(error),
    };
    if let Some(stopped) = session.selected.as_mut().and_then(|selected| selected.stopped.take()) {
        message_limit::report(&mut session.wire, stopped, &mut reply);
    }
    if reply.text.is_empty() {
        // RFC 3501 §9, resp-text: the text must not be empty.
        reply.text = [rule.name, " completed"].concat().into();
    }
    if changes_list(rule.name)
        && let Some(notify) = &mut session.notify
    {
        notify.adopt_list().await;
    }
    match announce::all(session, rule.numbers, Some(&tag)).await {
        Ok(()) => {}
        Err(Failure::Net(error)) => return Err(error),
        // Someone deleted the selected mailbox, or took the right to read it. RFC 2180 §3.3 leaves
        // hardly any choice but to end the session.
        Err(Failure::Store(StoreError::NoMailbox(_))) => {
            print_status(&mut session.wire, reply.status(Some(tag))).await?;
            let why = session.why_closed();
            session.wire.say_bye(why);
            return Ok(Next::Close);
        }
        // The command itself has been answered. The remaining changes can be reported with a later
        // one.
        Err(error) => {
            tracing::warn!(%error, "cannot read the changes of the mailbox; a later command will report them")
        }
    }
    match reply.kind {
        StatusKind::Bad => session.bad_commands += 1,
        // NOOP, CAPABILITY and ID do not reset the count of bad commands: a client that guesses
        // passwords could send one between two guesses.
        StatusKind::Ok if rule.legal != Legal::Anywhere => session.bad_commands = 0,
        _ => {}
    }
    print_status(&mut session.wire, reply.status(Some(tag))).await?;
    Ok(Next::Command)
}

/// A command in a mailbox of another account: the present rights count (RFC 4314).
async fn run_renewed(session: &mut Session, tag: &Tag, body: CommandBody) -> Result<Reply, Failure> {
    session.renew_rights(Some(tag)).await?;
    run(session, tag, body).await
}

/// Commands run on the heap, all but IDLE: a session that idles holds room for IDLE alone.
async fn run(session: &mut Session, tag: &Tag, body: CommandBody) -> Result<Reply, Failure> {
    match body {
        CommandBody::Capability => {
            let text = capability::text(session);
            session.wire.say_line(&["* CAPABILITY ", &text]);
            Ok(DONE)
        }
        // Every command reports changes; these two do nothing else.
        CommandBody::Noop | CommandBody::Check => Ok(DONE),
        CommandBody::Id(fields) => Ok(id::run(session, fields)),
        CommandBody::Enable(names) => Box::pin(enable::run(session, tag, &names)).await,
        CommandBody::Login { user, password } => Box::pin(login::run(session, &user, password)).await,
        CommandBody::Authenticate { mechanism, initial } => {
            Box::pin(authenticate::run(session, &mechanism, initial)).await
        }
        CommandBody::Select { mailbox, access, params } => {
            Box::pin(select::run(session, tag, &mailbox, (access, params))).await
        }
        CommandBody::Create { mailbox, special_use } => {
            Box::pin(create::run(session, tag, &mailbox, &special_use)).await
        }
        CommandBody::Delete(mailbox) => Box::pin(delete::run(session, tag, &mailbox)).await,
        CommandBody::Rename { from, to } => Box::pin(rename::run(session, tag, &from, &to)).await,
        CommandBody::Subscribe(mailbox) => Box::pin(subscribe::subscribe(session, tag, &mailbox)).await,
        CommandBody::Unsubscribe(mailbox) => Box::pin(subscribe::unsubscribe(session, tag, &mailbox)).await,
        CommandBody::List(args) => Box::pin(list::run(session, tag, &args)).await,
        CommandBody::Lsub { reference, pattern } => {
            Box::pin(lsub::run(session, tag, (&reference, &pattern), lsub::LsubNames::Local)).await
        }
        CommandBody::Rlsub { reference, pattern } => {
            Box::pin(lsub::run(session, tag, (&reference, &pattern), lsub::LsubNames::Everywhere)).await
        }
        CommandBody::Rlist { reference, pattern } => {
            Box::pin(rlist::run(session, tag, reference, pattern)).await
        }
        CommandBody::Xlist { reference, pattern } => {
            Box::pin(xlist::run(session, tag, reference, pattern)).await
        }
        CommandBody::Namespace => Ok(namespace::run(session)),
        CommandBody::GetJmapAccess => Ok(jmap_access::run(session)),
        CommandBody::Status { mailbox, items } => Box::pin(status::run(session, tag, &mailbox, &items)).await,
        CommandBody::GetQuota(root) => Box::pin(quota::get(session, tag, &root)).await,
        CommandBody::GetQuotaRoot(mailbox) => Box::pin(quota::get_root(session, tag, &mailbox)).await,
        CommandBody::SetQuota { root, limits } => Box::pin(quota::set(session, tag, &root, &limits)).await,
        CommandBody::GetMetadata { mailbox, max_size, depth, entries } => {
            let question = metadata::MetadataRequest { max_size, depth, entries: &entries };
            Box::pin(metadata::get(session, tag, &mailbox, &question)).await
        }
        CommandBody::SetMetadata { mailbox, entries } => {
            Box::pin(metadata::set(session, tag, &mailbox, &entries)).await
        }
        CommandBody::Acl(command) => Box::pin(acl::run(session, tag, command)).await,
        CommandBody::GenUrlAuth(urls) => Box::pin(urlauth::generate(session, tag, &urls)).await,
        CommandBody::ResetKey { mailbox, mechanisms } => {
            Box::pin(urlauth::reset(session, tag, mailbox.as_ref(), &mechanisms)).await
        }
        CommandBody::UrlFetch(items) => Box::pin(urlauth::fetch(session, tag, &items)).await,
        CommandBody::Append { mailbox, messages } => {
            Box::pin(append::run(session, tag, &mailbox, messages)).await
        }
        CommandBody::Notify(asked) => Box::pin(notify::run(session, tag, asked)).await,
        CommandBody::Idle => idle::run(session, tag).await,
        CommandBody::Close => Box::pin(close::close(session, tag)).await,
        CommandBody::Unselect => Ok(close::unselect(session)),
        CommandBody::UidBatches { size, batches } => {
            uid_batches::run(&mut session.ctx()?, tag, size, batches)
        }
        CommandBody::CancelUpdate(tags) => Ok(cancel_update::run(&mut session.ctx()?, &tags)),
        CommandBody::Expunge { uids } => {
            Box::pin(expunge::run(&mut session.ctx()?, tag, uids.as_ref())).await
        }
        CommandBody::MultiSearch(args) => multi_search::run(session, tag, args).await,
        CommandBody::Language(ranges) => language::run(&mut session.wire, &ranges),
        CommandBody::Comparator(wanted) => comparator::run(&mut session.wire, &wanted),
        CommandBody::Search(args) => search::run(session, tag, args).await,
        CommandBody::Sort(args) => sort::run(session, tag, args).await,
        CommandBody::Thread(args) => Box::pin(thread::run(&mut session.ctx()?, tag, args)).await,
        CommandBody::Fetch { set, items, modifiers } => {
            let command = fetch::FetchCommand { set, items, modifiers };
            Box::pin(fetch::run(&mut session.ctx()?, tag, command)).await
        }
        CommandBody::Store { set, unchanged_since, action, answer, flags } => {
            let command = store::StoreCommand { set, unchanged_since, action, answer, flags };
            Box::pin(store::run(&mut session.ctx()?, tag, command)).await
        }
        CommandBody::StoreAnnotations { set, unchanged_since, changes } => {
            let ctx = &mut session.ctx()?;
            Box::pin(store_annotations::run(ctx, tag, &set, (unchanged_since, &changes))).await
        }
        CommandBody::StoreLabels { set, unchanged_since, action, answer, labels } => {
            let command = store_labels::StoreLabels { set, unchanged_since, action, answer, labels };
            Box::pin(store_labels::run(&mut session.ctx()?, tag, command)).await
        }
        CommandBody::Copy { set, mailbox } => {
            Box::pin(copy::copy(&mut session.ctx()?, tag, &set, &mailbox)).await
        }
        CommandBody::Replace { set, mailbox, message } => {
            Box::pin(replace::run(session, tag, &set, (&mailbox, *message))).await
        }
        CommandBody::Move { set, mailbox } => {
            Box::pin(copy::move_(&mut session.ctx()?, tag, &set, &mailbox)).await
        }
        // Handled in `dispatch`.
        CommandBody::Logout
        | CommandBody::StartTls
        | CommandBody::CompressDeflate
        | CommandBody::Unauthenticate => Err(not_dispatched()),
    }
}

/// The answer to a command that `dispatch` should have handled. Tests fail on it.
fn not_dispatched() -> Failure {
    debug_assert!(false, "`dispatch` handles this command");
    Reply::no(Code::ServerBug, "The server failed to run this command; please report it").into()
}
