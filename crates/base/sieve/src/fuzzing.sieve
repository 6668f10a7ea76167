require ["fileinto", "envelope", "variables", "relational", "comparator-i;ascii-numeric", "subaddress", "body",
    "date", "index", "editheader", "mime", "foreverypart", "extracttext", "duplicate", "vacation", "regex",
    "comparator-i;unicode-casemap", "imap4flags"];
if header :matches ["subject", "from", "x-tag"] "*?a*b?*" { set :upper "a" "${1}${2}${3}"; }
if header :regex :comparator "i;unicode-casemap" "subject" "(a|b)*ü?$" { addflag "r${1}"; }
if header :contains :comparator "i;unicode-casemap" "subject" "GRÜ" { addflag "u"; }
if address :detail :matches ["from", "to", "cc"] "*" { set "d" "${0}"; }
if address :all :count "gt" :comparator "i;ascii-numeric" ["from", "to", "cc"] "2" { addflag "many"; }
if header :index 2 :last "received" "x" { stop; }
if date :zone "+0530" :value "ge" "date" "iso8601" "2000" { addflag "new"; }
if date :originalzone :index 1 :last "received" "julian" "51603" { addflag "j"; }
if body :content ["text", "message", "multipart"] :contains "x" { addflag "b"; }
if body :raw :matches "*a*?b*" { addflag "raw"; }
if header :mime :anychild :param ["filename", "name"] :matches ["content-type", "content-disposition"] "*.exe" {
    addflag "exe";
}
foreverypart :name "p" {
    if exists :mime "content-id" { break :name "p"; }
    if header :mime :contenttype "content-type" "text/plain" { extracttext :first 20 "t"; }
    foreverypart { set "n" "${n}${t}"; }
}
addheader "X-Seen" "${a} ${t}";
deleteheader :matches "x-tag" "*a*";
deleteheader :index 1 :last "subject";
if duplicate :header "x-id" { discard; }
vacation :subject "${d}" "away";
fileinto "${n}x";
