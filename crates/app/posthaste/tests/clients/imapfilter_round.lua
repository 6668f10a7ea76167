-- imapfilter against the server: mailboxes, appends, octets, flags, searches of the server's and of its own, copies,
-- moves, deletions, IDLE. PORT, USER_NAME and PASSWORD are in the environment. Ends at the first thing amiss.
local function same(what, got, wanted)
    if got ~= wanted then
        error(string.format("%s: [%s] instead of [%s]", what, tostring(got), tostring(wanted)), 2)
    end
end

-- UIDs of what was found, in their order.
local function uids(found)
    local made = {}
    for _, message in ipairs(found) do table.insert(made, message[2]) end
    table.sort(made)
    return table.concat(made, ",")
end

options.starttls = false
options.info = false
options.timeout = 60
options.subscribe = true
options.charset = "UTF-8"
local account = IMAP {
    server = "127.0.0.1",
    port = tonumber(os.getenv("PORT")),
    username = os.getenv("USER_NAME"),
    password = os.getenv("PASSWORD"),
}

-- imapfilter writes it in modified UTF-7 (RFC 3501 §5.1.3), curl does not.
local name, written = "Lua/a & \xc3\xbc", "Lua/a%20%26-%20%26APw-"
same("created", account:create_mailbox(name), true)
same("subscribed", account:subscribe_mailbox(name), true)
local mailboxes = account:list_all("Lua")
same("listed", table.concat(mailboxes, "|"), name)
same("listed as subscribed", table.concat(account:list_subscribed("Lua"), "|"), name)

local mail = {
    "Subject: plain\r\nFrom: Zoe <zoe@example.net>\r\nDate: Wed, 01 Jan 2020 10:00:00 +0000\r\n\r\n.\r\n..\r\nFrom here\r\n",
    "Subject: no end of line\r\n\r\nx",
    "Subject: eight bits\r\nContent-Type: text/plain; charset=utf-8\r\n\r\ngr\xc3\xbc\xc3\x9fe \xff\r\n",
    "Subject: parts\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=\"b b\"\r\n\r\n"
        .. "--b b\r\n\r\none\r\n--b b\r\nContent-Type: message/rfc822\r\n\r\nSubject: inner\r\n\r\ntwo\r\n--b b--\r\n",
    "Subject: long\r\n\r\n" .. string.rep(string.rep("0123456789", 7) .. "\r\n", 3000),
}
local box = account[name]
for _, text in ipairs(mail) do
    same("appended", box:append_message(text, { "\\Flagged", "$Kept" }, "01-Jan-2020 10:00:00 +0200"), true)
end
local exist, _, unseen, next_uid = box:check_status()
same("status", exist .. " " .. unseen .. " " .. next_uid, "5 5 6")

for uid, text in ipairs(mail) do
    same("octets", box[uid]:fetch_message(), text)
    same("size", box[uid]:fetch_size(), #text)
end
local flags = {}
for _, flag in ipairs(box[1]:fetch_flags()) do
    if flag ~= "\\Recent" then table.insert(flags, flag) end
end
table.sort(flags)
same("flags", table.concat(flags, " "), "$Kept \\Flagged")
same("date", box[1]:fetch_date():gsub("^ ", ""), "1-Jan-2020 08:00:00 +0000")
same("field", box[3]:fetch_field("subject"):gsub("%s+$", ""), "Subject: eight bits")
same("body", box[2]:fetch_body(), "x")
same("part", box[4]:fetch_part("2.1"), "two")
same("type of a part", box[4]:fetch_structure()["2"].type:lower(), "message/rfc822")

same("by subject", uids(box:contain_subject("eight")), "3")
same("by text", uids(box:contain_body("gr\xc3\xbc\xc3\x9fe")), "3")
same("both", uids(box:is_flagged() * box:is_smaller(1000) - box:contain_subject("parts")), "1,2,3")
same("either", uids(box:contain_from("zoe") + box:is_larger(100000)), "1,5")
same("by date", uids(box:sent_on("01-Jan-2020")), "1,2,3,4,5")
same("by keyword", uids(box:has_keyword("$Kept") * box:arrived_before("02-Jan-2020")), "1,2,3,4,5")
same("by pattern", uids(box:match_header("Subject: (plain|long)")), "1,5")
same("by its own query", uids(box:send_query("OR SUBJECT inner TEXT inner")), "4")

box:select_all():mark_seen()
same("seen", uids(box:is_seen()), "1,2,3,4,5")
box:contain_subject("plain"):remove_flags({ "\\Flagged" })
box:contain_subject("long"):replace_flags({ "$Other" })
same("flags changed", uids(box:is_flagged()) .. " " .. uids(box:has_keyword("$Other")), "2,3,4 5")

box:contain_subject("plain"):copy_messages(account["Archive"])
-- A mailbox that is not there yet is made (RFC 3501 §6.4.7, TRYCREATE).
box:contain_subject("eight"):move_messages(account["Lua/new"])
same("left", uids(box:select_all()), "1,2,4,5")
same("arrived", account["Lua/new"][1]:fetch_message(), mail[3])
box:contain_subject("no end"):delete_messages()
same("expunged", uids(box:select_all()), "1,4,5")

-- Another process appends until this one woke: nobody says when it began to wait.
local pushed, ended = os.tmpname(), os.tmpname()
os.remove(ended)
local file = io.open(pushed, "w")
file:write("Subject: pushed\r\n\r\nx")
file:close()
os.execute(string.format(
    "(for round in $(seq 1000); do [ -e %s ] || break; sleep 0.2;"
        .. " curl --silent --user '%s:%s' --upload-file %s 'imap://127.0.0.1:%s/%s'; done; echo >%s) &",
    pushed, os.getenv("USER_NAME"), os.getenv("PASSWORD"), pushed, os.getenv("PORT"), written, ended))
local woken, event = box:enter_idle()
os.remove(pushed)
-- It may append once more.
os.execute(string.format("until [ -e %s ]; do sleep 0.1; done", ended))
os.remove(ended)
same("idle", tostring(woken) .. " " .. event, "true EXISTS")
same("pushed", #box:contain_subject("pushed") > 0, true)

box:select_all():delete_messages()
same("emptied", #box:select_all(), 0)
same("renamed", account:rename_mailbox(name, "Lua/c"), true)
for _, made in ipairs({ "Lua/c", "Lua/new", "Lua" }) do
    same("deleted", account:delete_mailbox(made), true)
end
print("imapfilter: done")
