// imapflow against the server: lists, appends, octets, structures, flags, searches, copies, moves, downloads, quota,
// IDLE, what another session expunges under QRESYNC. Arguments: port, user, password. Fails at the first thing amiss.
'use strict';
const assert = require('node:assert/strict');
const { once } = require('node:events');
const { ImapFlow } = require('imapflow');

// Run from text, the program has no name among its arguments.
const [port, user, pass] = process.argv.slice(-3);
const mail = [
    'Subject: plain\r\nFrom: =?utf-8?q?Zo=C3=AB?= <zoe@example.net>\r\nMessage-ID: <a@x>\r\n\r\n.\r\n..\r\nFrom here\r\n',
    'Subject: no end of line\r\n\r\nx',
    'Subject: eight bits\r\nContent-Type: text/plain; charset=utf-8\r\n\r\ngr\xc3\xbc\xc3\x9fe \xff\r\n',
    'Subject: parts\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary="b b"\r\n\r\n' +
        '--b b\r\nContent-Type: text/plain; charset=iso-8859-1\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n=FC\r\n' +
        '--b b\r\nContent-Type: application/octet-stream\r\nContent-Transfer-Encoding: base64\r\n' +
        'Content-Disposition: attachment; filename="a.bin"\r\n\r\nAAECAwD/\r\n--b b--\r\n',
    'Subject: long\r\n\r\n' + ('0123456789'.repeat(7) + '\r\n').repeat(3000),
].map(text => Buffer.from(text, 'latin1'));

async function connected(more) {
    const client = new ImapFlow({ host: '127.0.0.1', port: +port, secure: false, doSTARTTLS: false, auth: { user, pass }, logger: false, ...more });
    await client.connect();
    return client;
}

async function octets(stream) {
    const pieces = [];
    for await (const piece of stream) pieces.push(piece);
    return Buffer.concat(pieces);
}

// IMAP4rev2 has no \Recent.
function flagsOf(message) {
    return [...message.flags].filter(flag => flag !== '\\Recent').sort().join();
}

async function round(extensions) {
    const box = `Prüfung & Co/${extensions.name}`;
    const client = await connected(extensions.options);
    assert.equal((await client.list()).find(found => found.specialUse === '\\Sent').path, 'Sent');
    assert.equal((await client.mailboxCreate(box)).created, true);
    await client.mailboxSubscribe(box);
    assert.equal((await client.list()).find(found => found.path === box).subscribed, true);

    const uids = [];
    for (const text of mail) {
        uids.push((await client.append(box, text, ['\\Flagged', '$Kept'], new Date(Date.UTC(2020, 0, 1, 8)))).uid);
    }
    assert.deepEqual(uids, [1, 2, 3, 4, 5]);
    assert.equal((await client.mailboxOpen(box)).exists, 5);
    const fetched = await client.fetchAll('1:*', { uid: true, source: true, size: true, flags: true, internalDate: true, envelope: true, bodyStructure: true, threadId: true });
    fetched.forEach((message, at) => {
        assert.ok(message.source.equals(mail[at]), `message ${at}: ${message.source.subarray(0, 200)}`);
        assert.equal(message.size, mail[at].length);
        assert.equal(flagsOf(message), '$Kept,\\Flagged');
        assert.equal(message.internalDate.toISOString(), '2020-01-01T08:00:00.000Z');
        assert.ok(message.emailId && message.threadId);
    });
    assert.equal(fetched[0].envelope.from[0].name, 'Zoë');
    assert.equal(fetched[3].bodyStructure.childNodes[1].dispositionParameters.filename, 'a.bin');
    const part = await client.fetchOne('3', { bodyParts: ['1', 'text'] });
    assert.equal(part.bodyParts.get('1').toString('latin1'), 'gr\xc3\xbc\xc3\x9fe \xff\r\n');

    // Parts are downloaded in ranges, and decoded.
    assert.ok((await octets((await client.download('4', '2')).content)).equals(Buffer.from([0, 1, 2, 3, 0, 255])));
    assert.equal((await octets((await client.download('4', '1')).content)).toString().trim(), 'ü');
    assert.ok((await octets((await client.download('5', undefined, { chunkSize: 64 * 1024 })).content)).equals(mail[4]));
    assert.ok((await client.downloadMany('4', ['1', '2']))['2'].content.equals(Buffer.from([0, 1, 2, 3, 0, 255])));

    assert.deepEqual(await client.search({ subject: 'eight' }, { uid: true }), [3]);
    assert.deepEqual(await client.search({ body: 'grüße' }), [3]);
    assert.deepEqual(await client.search({ or: [{ subject: 'long' }, { from: 'Zoë' }], before: '2020-02-01' }), [1, 5]);
    assert.deepEqual(await client.search({ keyword: '$Kept', seen: true }), []);
    assert.equal(await client.messageFlagsAdd('1:2', ['\\Seen']), true);
    assert.equal(await client.messageFlagsRemove({ seen: true }, ['\\Flagged']), true);
    assert.equal(await client.messageFlagsSet('3', ['$Other']), true);
    const flags = (await client.fetchAll('1:3', { flags: true })).map(flagsOf);
    assert.deepEqual(flags, ['$Kept,\\Seen', '$Kept,\\Seen', '$Other']);

    const copied = await client.messageCopy('1:2', 'Archive');
    assert.deepEqual([...copied.uidMap.keys()], [1, 2]);
    const moved = await client.messageMove('3', 'Archive');
    assert.deepEqual([...moved.uidMap.keys()], [3]);
    // Of a message that vanished (RFC 7162 §3.2.10) imapflow takes the UID, and leaves its count.
    assert.equal(client.mailbox.exists, extensions.options.qresync ? 5 : 4);
    await client.mailboxClose();
    assert.equal((await client.mailboxOpen(box)).exists, 4);
    assert.equal((await client.status('Archive', { messages: true, unseen: true })).messages, extensions.archived);
    assert.ok((await client.getQuota(box)) !== undefined);

    // Another session appends, flags and expunges, and this one hears of it while it is idle.
    const other = await connected();
    await other.mailboxOpen(box);
    const idle = client.idle();
    const exists = once(client, 'exists');
    await other.append(box, mail[0]);
    assert.equal((await exists)[0].count, 5);
    const flagged = once(client, 'flags');
    await other.messageFlagsAdd({ uid: '4' }, ['\\Answered'], { uid: true });
    assert.ok((await flagged)[0].flags.has('\\Answered'));
    const expunged = once(client, 'expunge');
    assert.equal(await other.messageDelete('2', { uid: true }), true);
    const event = (await expunged)[0];
    if (extensions.options.qresync) {
        assert.deepEqual([event.vanished, event.uid], [true, 2]);
    } else {
        assert.deepEqual([event.vanished, event.seq], [false, 2]);
    }
    await client.noop();
    await idle;
    await other.logout();
    assert.deepEqual(await client.search({ all: true }, { uid: true }), [1, 4, 5, 6]);

    assert.equal((await client.mailboxRename(box, `${box} alt`)).newPath, `${box} alt`);
    await client.mailboxClose();
    await client.mailboxDelete(`${box} alt`);
    await assert.rejects(client.mailboxOpen(box));
    await client.logout();
}

async function main() {
    await round({ name: 'rev2', options: {}, archived: 3 });
    await round({ name: 'rev1', options: { disableIMAP4rev2: true, disableBinary: true, disableCompression: true, disableAutoEnable: true }, archived: 6 });
    await round({ name: 'qresync', options: { qresync: true }, archived: 9 });
    console.log('imapflow: done');
}

main().catch(error => {
    console.error(error, error.responseText || '');
    process.exit(1);
});
