// Angus Mail (Jakarta Mail) against the server: folders, appends, octets, parts, flags, searches, sorts, copies, moves,
// quota, rights, IDLE, QRESYNC, a compressed session. Arguments: port, user, password. Ends at the first thing amiss.

import jakarta.mail.*;
import jakarta.mail.event.*;
import jakarta.mail.internet.*;
import jakarta.mail.search.*;
import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.*;
import org.eclipse.angus.mail.imap.*;

public class AngusRound {
    static final List<String> MAIL = List.of(
        "Subject: plain\r\nFrom: =?utf-8?q?Zo=C3=AB?= <zoe@example.net>\r\nMessage-ID: <a@x>\r\n\r\n.\r\n..\r\nFrom here\r\n",
        "Subject: no end of line\r\n\r\nx",
        "Subject: eight bits\r\nContent-Type: text/plain; charset=utf-8\r\n\r\ngr\u00c3\u00bc\u00c3\u009fe \u00ff\r\n",
        "Subject: parts\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=\"b b\"\r\n\r\n"
            + "--b b\r\nContent-Type: text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n=FC\r\n"
            + "--b b\r\nContent-Type: message/rfc822\r\n\r\nSubject: inner\r\n\r\ntwo\r\n"
            + "--b b\r\nContent-Type: application/octet-stream\r\nContent-Transfer-Encoding: base64\r\n"
            + "Content-Disposition: attachment; filename=\"a.bin\"\r\n\r\nAAECAwD/\r\n--b b--\r\n",
        "Subject: long\r\n\r\n" + ("0123456789".repeat(7) + "\r\n").repeat(3000));

    static String port, user, password;
    static Session session;

    static void same(String what, Object got, Object wanted) {
        if (!Objects.equals(got, wanted)) throw new AssertionError(what + ": " + got + " instead of " + wanted);
    }

    static IMAPStore connected(String... more) throws MessagingException {
        Properties properties = new Properties();
        properties.put("mail.imap.port", port);
        properties.put("mail.imap.timeout", "60000");
        properties.put("mail.imap.connectiontimeout", "60000");
        for (int at = 0; at < more.length; at += 2) properties.put("mail.imap." + more[at], more[at + 1]);
        session = Session.getInstance(properties);
        IMAPStore store = (IMAPStore) session.getStore("imap");
        store.connect("127.0.0.1", user, password);
        return store;
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.ISO_8859_1);
    }

    static String octets(Message message) throws Exception {
        ByteArrayOutputStream made = new ByteArrayOutputStream();
        message.writeTo(made);
        return made.toString(StandardCharsets.ISO_8859_1);
    }

    static MimeMessage made(String text) throws Exception {
        // As it is: a MimeMessage that is read writes what it read.
        return new MimeMessage(session, new ByteArrayInputStream(bytes(text)));
    }

    static String uids(IMAPFolder folder, Message[] messages) throws Exception {
        StringJoiner made = new StringJoiner(",");
        for (Message message : messages) {
            // What the server expunged by itself stays in the folder, and says so.
            if (!message.isExpunged()) made.add(Long.toString(folder.getUID(message)));
        }
        return made.toString();
    }

    static Message[] one(IMAPFolder folder, long uid) throws Exception {
        return new Message[] {folder.getMessageByUID(uid)};
    }

    static void mechanisms() throws Exception {
        for (String mechanism : List.of("PLAIN", "LOGIN")) connected("auth.mechanisms", mechanism).close();
        try {
            String kept = password;
            password = "wrong";
            try { connected().close(); } finally { password = kept; }
            throw new AssertionError("a wrong password logs in");
        } catch (AuthenticationFailedException expected) {
        }
    }

    static void messages(IMAPFolder box) throws Exception {
        Message[] mail = new Message[MAIL.size()];
        for (int at = 0; at < mail.length; at++) mail[at] = made(MAIL.get(at));
        mail[0].setFlag(Flags.Flag.FLAGGED, true);
        AppendUID[] appended = box.appendUIDMessages(mail);
        for (int at = 0; at < mail.length; at++) same("UID", appended[at].uid, at + 1L);
        box.open(Folder.READ_WRITE);
        same("messages", box.getMessageCount(), mail.length);
        Message[] there = box.getMessages();
        FetchProfile profile = new FetchProfile();
        profile.add(FetchProfile.Item.ENVELOPE);
        profile.add(FetchProfile.Item.CONTENT_INFO);
        profile.add(FetchProfile.Item.FLAGS);
        profile.add(UIDFolder.FetchProfileItem.UID);
        profile.add(IMAPFolder.FetchProfileItem.HEADERS);
        box.fetch(there, profile);
        for (int at = 0; at < mail.length; at++) {
            ((IMAPMessage) there[at]).setPeek(true);
            same("octets", octets(there[at]), MAIL.get(at));
            same("flagged", there[at].isSet(Flags.Flag.FLAGGED), at == 0);
            same("seen", there[at].isSet(Flags.Flag.SEEN), false);
        }
        same("name", ((InternetAddress) there[0].getFrom()[0]).getPersonal(), "Zoë");
        Multipart parts = (Multipart) there[3].getContent();
        same("parts", parts.getCount(), 3);
        same("text", parts.getBodyPart(0).getContent(), "ü");
        same("inner", ((Message) parts.getBodyPart(1).getContent()).getSubject(), "inner");
        same("name of a file", parts.getBodyPart(2).getFileName(), "a.bin");
        same("decoded", Arrays.toString(parts.getBodyPart(2).getInputStream().readAllBytes()), "[0, 1, 2, 3, 0, -1]");
    }

    static void searches(IMAPFolder box) throws Exception {
        same("by subject", uids(box, box.search(new SubjectTerm("eight"))), "3");
        // Angus enables UTF8=ACCEPT and then writes "ü" in ISO-8859-1, which no server can know: ASCII alone.
        same("by text", uids(box, box.search(new BodyTerm("FROM HERE"))), "1");
        same("by either", uids(box, box.search(new OrTerm(new SubjectTerm("long"), new FromStringTerm("zoe@")))), "1,5");
        same("by flags", uids(box, box.search(new FlagTerm(new Flags(Flags.Flag.FLAGGED), false))), "2,3,4,5");
        same("by size", uids(box, box.search(new NotTerm(new SizeTerm(ComparisonTerm.LT, 1000)))), "5");
        same("sorted", uids(box, box.getSortedMessages(new SortTerm[] {SortTerm.REVERSE, SortTerm.SIZE})), "5,4,1,3,2");
    }

    static void changes(IMAPStore store, IMAPFolder box) throws Exception {
        Flags label = new Flags("$Label");
        label.add(Flags.Flag.SEEN);
        box.setFlags(box.getMessages(1, 2), label, true);
        same("keyword", uids(box, box.search(new FlagTerm(new Flags("$Label"), true))), "1,2");
        box.setFlags(one(box, 2), new Flags(Flags.Flag.SEEN), false);
        same("unread", box.getUnreadMessageCount(), 4);
        IMAPFolder archive = (IMAPFolder) store.getFolder("Archive");
        AppendUID[] copied = box.copyUIDMessages(box.getMessages(1, 2), archive);
        AppendUID[] moved = box.moveUIDMessages(one(box, 3), archive);
        same("copied and moved", copied[0].uid + "," + copied[1].uid + "," + moved[0].uid, "1,2,3");
        archive.open(Folder.READ_ONLY);
        same("arrived", octets(archive.getMessage(3)), MAIL.get(2));
        same("keyword along", archive.getMessage(1).getFlags().contains("$Label"), true);
        archive.close(false);
        box.setFlags(new int[] {1, 2}, new Flags(Flags.Flag.DELETED), true);
        box.expunge(one(box, 2));
        same("one expunged", uids(box, box.getMessages()), "1,4,5");
        box.expunge();
        same("all expunged", uids(box, box.getMessages()), "4,5");
        long octets = MAIL.get(0).length() + MAIL.get(1).length() + MAIL.get(2).length();
        same("size", archive.getStatusItem("SIZE"), octets);
    }

    // Until another command ends it.
    static CompletableFuture<Void> idling(IMAPFolder box) {
        return CompletableFuture.runAsync(() -> {
            try { box.idle(); } catch (MessagingException error) { throw new CompletionException(error); }
        });
    }

    static void idle(IMAPStore store, IMAPFolder box) throws Exception {
        BlockingQueue<String> heard = new LinkedBlockingQueue<>();
        box.addMessageCountListener(new MessageCountAdapter() {
            @Override public void messagesAdded(MessageCountEvent event) {
                heard.add("added " + event.getMessages().length);
            }
            @Override public void messagesRemoved(MessageCountEvent event) {
                heard.add("removed " + event.getMessages().length);
            }
        });
        CompletableFuture<Void> idling = idling(box);
        IMAPStore other = connected("compress.enable", "true");
        IMAPFolder same = (IMAPFolder) other.getFolder(box.getFullName());
        same.open(Folder.READ_WRITE);
        same.appendMessages(new Message[] {made(MAIL.get(0))});
        same("heard", heard.poll(60, TimeUnit.SECONDS), "added 1");
        box.getUnreadMessageCount();
        idling.get(60, TimeUnit.SECONDS);
        same.getMessageByUID(4).setFlag(Flags.Flag.DELETED, true);
        same("compressed", octets(same.getMessageByUID(5)), MAIL.get(4));
        idling = idling(box);
        same.close(true);
        same("heard", heard.poll(60, TimeUnit.SECONDS), "removed 1");
        box.getUnreadMessageCount();
        idling.get(60, TimeUnit.SECONDS);
        other.close();
    }

    // What changed while nobody looked (RFC 7162).
    static void resync(String name) throws Exception {
        IMAPStore store = connected();
        IMAPFolder box = (IMAPFolder) store.getFolder(name);
        box.open(Folder.READ_WRITE, ResyncData.CONDSTORE);
        long validity = box.getUIDValidity(), highest = box.getHighestModSeq();
        box.getMessageByUID(5).setFlag(Flags.Flag.ANSWERED, true);
        box.getMessageByUID(6).setFlag(Flags.Flag.DELETED, true);
        box.close(true);
        List<MailEvent> events = box.open(Folder.READ_WRITE, new ResyncData(validity, highest));
        String heard = "";
        for (MailEvent event : events) {
            if (event instanceof MessageVanishedEvent vanished) heard += "vanished " + Arrays.toString(vanished.getUIDs());
            if (event instanceof MessageChangedEvent changed) heard += "changed " + box.getUID(changed.getMessage()) + " ";
        }
        same("since then", List.of(heard.contains("vanished [6]"), heard.contains("changed 5")), List.of(true, true));
        box.close(false);
        store.close();
    }

    // A thread that idles would keep the program alive.
    public static void main(String[] arguments) {
        try {
            round(arguments);
            System.exit(0);
        } catch (Throwable error) {
            error.printStackTrace();
            System.exit(1);
        }
    }

    static void round(String[] arguments) throws Exception {
        port = arguments[0];
        user = arguments[1];
        password = arguments[2];
        mechanisms();
        IMAPStore store = connected();
        String name = "Prüfung & Co/Java";
        IMAPFolder box = (IMAPFolder) store.getFolder(name);
        same("created", box.create(Folder.HOLDS_MESSAGES | Folder.HOLDS_FOLDERS), true);
        box.setSubscribed(true);
        same("subscribed", store.getDefaultFolder().listSubscribed(name).length, 1);
        same("separator", box.getSeparator(), '/');
        same("special use", List.of(((IMAPFolder) store.getFolder("Sent")).getAttributes()).contains("\\Sent"), true);
        same("namespaces", store.getUserNamespaces(user).length, 1);
        same("ID", store.id(Map.of("name", "a test")).get("name"), "Posthaste");
        messages(box);
        searches(box);
        changes(store, box);
        same("rights", box.myRights().contains(Rights.Right.LOOKUP), true);
        same("quota roots", box.getQuota().length > 0, true);
        idle(store, box);
        box.close(false);
        resync(name);
        IMAPFolder renamed = (IMAPFolder) store.getFolder(name + " alt");
        same("renamed", box.renameTo(renamed), true);
        same("deleted", renamed.delete(false), true);
        same("exists", renamed.exists(), false);
        store.close();
        System.out.println("Angus Mail: done");
    }
}
