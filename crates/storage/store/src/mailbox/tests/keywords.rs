//! Keywords at the limit of a mailbox.

use super::*;

fn own_keywords(count: usize) -> Vec<Flag> {
    (0..count).map(|n| keyword(&format!("k{n}"))).collect()
}

/// The flags of a message by name.
fn names(mailbox: &Mailbox, uid: u32) -> String {
    let view = mailbox.view();
    let (_, row) = view.row_of_uid(Uid::new(uid).unwrap()).unwrap();
    let names: Vec<String> = view.head().keywords.flags_of(row.flags()).map(|f| f.to_string()).collect();
    names.join(" ")
}

#[tokio::test]
async fn a_full_keyword_table_drops_what_does_not_fit() {
    let store = store();
    let (source, target) = (mailbox(&store).await, mailbox(&store).await);
    source.append(vec![message(1, &[keyword("new"), Flag::Seen])]).await.unwrap();
    target.append(vec![message(1, &own_keywords(51))]).await.unwrap();
    target.copy_from(&source, &set(&[(1, 1)])).await.unwrap();
    assert_eq!(target.view().row_of_uid(Uid::new(2).unwrap()).unwrap().1.flags(), FlagSet::SEEN);
    let flags = [keyword("other"), Flag::Draft, keyword("$Forwarded"), keyword("k7")];
    let appended = target.append(vec![message(1, &flags), message(2, &flags)]).await.unwrap();
    assert_eq!(appended.left_out, [Keyword::new("other").unwrap()]);
    assert_eq!(names(&target, 3), "\\Draft k7 $Forwarded");
    // A client that sets one keyword too many gets an error; other changes of the batch succeed.
    let all = set(&[(1, 2)]);
    let (flag, seen) = ([keyword("new")], [Flag::Answered]);
    let (bad, good) = tokio::join!(
        target.store_flags(&all, FlagChange::Add, &flag, None),
        target.store_flags(&all, FlagChange::Add, &seen, None)
    );
    assert!(matches!(bad, Err(StoreError::Keyword(_))));
    assert_eq!(good.unwrap().changed.to_string(), "1:2");
}

/// A command can name ten thousand, and each is compared with those that are recorded.
#[tokio::test]
async fn only_the_first_keywords_that_do_not_fit_are_recorded() {
    let store = store();
    let mailbox = mailbox(&store).await;
    mailbox.append(vec![message(1, &own_keywords(51))]).await.unwrap();
    let others: Vec<Flag> = (0..1000).map(|n| keyword(&format!("other{n}"))).collect();
    let left_out = mailbox.append(vec![message(1, &others)]).await.unwrap().left_out;
    assert_eq!((left_out.len(), left_out[127].as_str()), (128, "other127"));
}

#[tokio::test]
async fn a_keyword_that_no_message_has_makes_room() {
    let store = store();
    let mailbox = mailbox(&store).await;
    let full = own_keywords(51);
    mailbox.append(vec![message(1, &full), message(2, &[])]).await.unwrap();
    let before = mailbox.view();
    mailbox.store_flags(&set(&[(1, 1)]), FlagChange::Remove, &full[3..5], None).await.unwrap();
    let (a, b, c) = (keyword("a"), keyword("b"), keyword("c"));
    let stored = mailbox.store_flags(&set(&[(2, 2)]), FlagChange::Add, &[a.clone(), b], None).await.unwrap();
    assert!(stored.view.difference_from(&before).new_keywords, "FLAGS is sent again");
    assert_eq!(names(&mailbox, 2), "a b");
    assert!(!names(&mailbox, 1).split(' ').any(|name| ["a", "b", "k3", "k4"].contains(&name)));
    let full_again =
        mailbox.store_flags(&set(&[(2, 2)]), FlagChange::Add, std::slice::from_ref(&c), None).await;
    assert!(matches!(full_again, Err(StoreError::Keyword(_))));
    // A closed mailbox: the head does not say which keyword no message has, so the rows are read.
    mailbox.store_flags(&set(&[(2, 2)]), FlagChange::Remove, &[a], None).await.unwrap();
    let elsewhere = Store::new(Arc::clone(store.engine()), StoreOptions::default());
    let appended = elsewhere.destination(mailbox.id()).append(vec![message(3, &[c])]).await.unwrap();
    assert!(appended.left_out.is_empty());
    let opened = elsewhere.open(mailbox.id()).await.unwrap();
    assert_eq!((names(&opened, 3), names(&opened, 2)), ("c".into(), "b".into()));
}

/// A session to which an EXPUNGE was not reported keeps the message, and must not see a keyword of
/// later days in its slot.
#[tokio::test]
async fn a_held_message_keeps_its_own_keywords() {
    let store = store();
    let mailbox = mailbox(&store).await;
    let full = own_keywords(51);
    let kept = [full[9].clone(), Flag::Flagged];
    mailbox.append(vec![message(1, &full), message(2, &kept), message(3, &[])]).await.unwrap();
    let announced = mailbox.view();
    mailbox.remove(&set(&[(1, 2)])).await.unwrap();
    let many: Vec<Flag> = (0..51).map(|n| keyword(&format!("new{n}"))).collect();
    mailbox.store_flags(&set(&[(3, 3)]), FlagChange::Add, &many, None).await.unwrap();
    let newest = mailbox.view();
    let held = announced.holding_expunged(&newest, &newest.difference_from(&announced));
    assert_eq!(held.exists(), 3);
    let flags = |uid: u32| {
        let (_, row) = held.row_of_uid(Uid::new(uid).unwrap()).unwrap();
        let names: Vec<String> = held.head().keywords.flags_of(row.flags()).map(|f| f.to_string()).collect();
        names
    };
    assert!(flags(1).iter().chain(&flags(2)).all(|name| !name.starts_with("new")), "{:?}", flags(1));
    assert_eq!(flags(2), ["\\Flagged"]);
    assert_eq!(flags(3).len(), 51);
}
