//! A hostile page, a hostile program of another origin: nothing that they send has an effect.

use std::path::Path;

use subagent_tests::harness::TestSandbox;

use super::{Panel, error, get, request};

/// A request of another origin: its method and path, its headers (`PORT` is the panel's), its body.
type Attack = (&'static str, &'static [&'static str], &'static str);

const OURS: &str = "Host: 127.0.0.1:PORT";
const JSON: &str = "Content-Type: application/json";
const EVIL: &str = "Origin: http://evil.example";

/// What never gets to a route, even with the right session.
const ATTACKS: &[Attack] = &[
    // Forms, which a browser sends without asking.
    ("POST STOP", &[OURS, EVIL, "Content-Type: application/x-www-form-urlencoded"], "a=b"),
    ("POST STOP", &[OURS, EVIL, "Content-Type: multipart/form-data; boundary=x"], "--x--"),
    ("POST STOP", &[OURS, EVIL, "Content-Type: text/plain"], "{}"),
    ("POST STOP", &[OURS, "Content-Type: text/plain"], "{}"),
    ("POST STOP", &[OURS, "Content-Type: text/plain; application/json"], "{}"),
    ("POST STOP", &[OURS], "{}"),
    ("POST STOP", &[OURS, JSON, "Content-Type: text/plain"], "{}"),
    // Another port of this host.
    ("POST STOP", &["Host: 127.0.0.1:1", JSON], "{}"),
    // fetch, with and without what a browser adds.
    ("POST STOP", &[OURS, EVIL, JSON], "{}"),
    ("POST STOP", &[OURS, EVIL, JSON, "Sec-Fetch-Site: cross-site"], "{}"),
    ("POST STOP", &[OURS, JSON, "Sec-Fetch-Site: cross-site"], "{}"),
    ("POST STOP", &[OURS, JSON, "Sec-Fetch-Site: same-site"], "{}"),
    ("POST STOP", &[OURS, JSON, "Origin: null"], "{}"),
    ("POST STOP", &[OURS, JSON, "Origin: http://127.0.0.1"], "{}"),
    ("POST STOP", &[OURS, JSON, "Origin: http://127.0.0.1:1"], "{}"),
    ("POST STOP", &[OURS, JSON, "Origin: https://127.0.0.1:PORT"], "{}"),
    ("POST STOP", &[OURS, JSON, "Origin: http://127.0.0.1:PORT.evil.example"], "{}"),
    ("POST STOP", &[OURS, JSON, "Origin: http://localhost:PORT"], "{}"),
    ("POST STOP", &[OURS, JSON, "Origin: http://127.0.0.1:PORT", EVIL], "{}"),
    ("POST STOP", &[OURS, JSON, "Origin: chrome-extension://abc"], "{}"),
    ("GET /api/live", &[OURS, EVIL], ""),
    ("GET /api/live", &[OURS, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"], ""),
    ("OPTIONS STOP", &[OURS, EVIL, "Access-Control-Request-Method: POST"], ""),
    // DNS rebinding: the name is theirs, the address is ours.
    (
        "POST STOP",
        &["Host: evil.example:PORT", JSON, "Origin: http://evil.example:PORT", "Sec-Fetch-Site: same-origin"],
        "{}",
    ),
    ("GET /", &["Host: evil.example:PORT", "Sec-Fetch-Site: none"], ""),
    ("GET /api/live", &["Host: localhost.evil.example:PORT"], ""),
    ("GET /api/live", &["Host: 127.0.0.1.nip.io:PORT"], ""),
    ("GET /api/live", &["Host: 127.0.0.1"], ""),
    ("GET /api/live", &["Host: 0.0.0.0:PORT"], ""),
    ("GET /api/live", &["Host: 127.0.0.2:PORT"], ""),
    ("GET /api/live", &["Host: 127.0.0.1:PORT", "Host: evil.example"], ""),
    ("GET http://evil.example/api/live", &[OURS], ""),
    // Frames and windows of others.
    ("GET /", &[OURS, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Dest: iframe"], ""),
    ("GET /app.js", &[OURS, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Dest: script"], ""),
    // Other methods, and methods in disguise.
    ("PUT STOP", &[OURS, JSON], "{}"),
    ("DELETE STOP", &[OURS, JSON], ""),
    ("GET STOP", &[OURS, "X-HTTP-Method-Override: POST"], ""),
    ("GET STOP", &[OURS, JSON], "{}"),
    ("CONNECT 127.0.0.1:1", &[OURS], ""),
    ("TRACE /", &[OURS], ""),
    // Paths that another reader could take for one of the list.
    ("POST /api/PLACE/workers/WORKER/../WORKER/stop", &[OURS, JSON], "{}"),
    ("POST /api/PLACE/workers/WORKER%2fstop", &[OURS, JSON], "{}"),
    ("POST /api/PLACE/workers/WORKER/stop/", &[OURS, JSON], "{}"),
    ("POST /api/PLACE/daemon/stop", &[OURS, JSON], r#"{"workers":true}"#),
    ("POST /api/PLACE/controllers/attach", &[OURS, JSON], "{}"),
    ("POST /api/PLACE/workers/WORKER/remove", &[OURS, JSON], r#"{"force":true}"#),
    ("GET /api/PLACE/daemon", &[OURS], ""),
    ("GET /../../etc/passwd", &[OURS], ""),
    ("GET /%2e%2e/%2e%2e/etc/passwd", &[OURS], ""),
    ("GET //evil.example/", &[OURS], ""),
];

#[test]
fn nothing_of_another_origin_has_an_effect() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let panel = Panel::start(&sandbox, &[]);
    let page = panel.enter();
    let (place, port) = (page.place(), panel.port);
    assert!(ATTACKS.len() >= 30);
    for (line, headers, body) in ATTACKS {
        let stop = format!("/api/{place}/workers/{worker}/stop");
        let line = line.replace("STOP", &stop).replace("PLACE", &place).replace("WORKER", &worker);
        let headers: Vec<String> =
            headers.iter().map(|header| header.replace("PORT", &port.to_string())).collect();
        // The worst case: it has the secret of a page.
        let bearer = page.bearer();
        let headers: Vec<&str> = headers.iter().map(String::as_str).chain([bearer.as_str()]).collect();
        let response = request(port, &line, &headers, body);
        assert!((400..500).contains(&response.status), "{line} {headers:?}: {response:?}");
        for leaked in ["\"ok\":true", "root:", "access-control"] {
            assert!(
                !response.body.contains(leaked) && !response.head.contains(leaked),
                "{line}: {response:?}"
            );
        }
    }
    assert_eq!(sandbox.show(&worker)["state"], "idle");
    assert_eq!(page.get(&format!("/api/{place}/workers/{worker}"))["state"], "idle");
    drop(panel);
    sandbox.finish();
}

#[test]
fn a_connection_that_no_visible_process_holds_needs_a_flag() {
    let (sandbox, _) = TestSandbox::with_worker();
    for (flags, is_refused) in [(&[][..], true), (&["--forwarded"], false)] {
        let panel = Panel::start(&sandbox, flags);
        let page = panel.enter();
        let (port, path) = (panel.port, format!("/api/{}/usage", page.place()));
        page.get(&path);
        let hidden = std::thread::spawn(move || {
            // The system shows only the descriptors of the first thread. Some containers forbid the call.
            nix::sched::unshare(nix::sched::CloneFlags::CLONE_FILES).ok()?;
            Some(get(port, &path, &[&page.bearer()]))
        });
        let Some(response) = hidden.join().unwrap() else { continue };
        if is_refused {
            assert_eq!(
                (response.status, error(&response).as_str()),
                (403, "FORBIDDEN_ORIGIN"),
                "{response:?}"
            );
            assert!(response.body.contains("no visible process holds its connection"), "{response:?}");
        } else {
            assert_eq!(response.status, 200, "{response:?}");
        }
        drop(panel);
    }
    sandbox.finish();
}

#[test]
fn both_families_and_all_three_names_are_the_panels() {
    let (sandbox, _) = TestSandbox::with_worker();
    let panel = Panel::start(&sandbox, &[]);
    for host in ["127.0.0.1", "[::1]", "localhost"] {
        let host = format!("Host: {host}:{}", panel.port);
        assert_eq!(request(panel.port, "GET /", &[&host, "Sec-Fetch-Site: none"], "").status, 200, "{host}");
    }
    if let Ok(stream) = std::net::TcpStream::connect(("::1", panel.port)) {
        use std::io::{Read as _, Write as _};
        let mut stream = stream;
        write!(stream, "GET / HTTP/1.1\r\nHost: [::1]:{}\r\nConnection: close\r\n\r\n", panel.port).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    // Nowhere else.
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let port = format!(":{:04X}", panel.port);
    let listening = |line: &&str| {
        line.split_whitespace().nth(3) == Some("0A")
            && line.split_whitespace().nth(1).is_some_and(|at| at.ends_with(&port))
    };
    let all: Vec<&str> = table.lines().filter(listening).collect();
    assert!(all.len() == 1 && all[0].contains(&format!("0100007F{port}")), "{all:?}");
    drop(panel);
    sandbox.finish();
}

#[test]
fn what_an_agent_writes_stays_text() {
    let (sandbox, worker) = TestSandbox::with_worker();
    let text = "Look: <script>alert(1)</script> [x](javascript:alert(1)) ![i](http://evil.example/i.png) \u{202e}abc\u{200b} \u{1b}[2Jx";
    let _ = sandbox.send(&worker, text);
    let panel = Panel::start(&sandbox, &[]);
    let page = panel.enter();
    let story = page.get(&format!("/api/{}/workers/{worker}/page", page.place()));
    let user = story["items"].as_array().unwrap().iter().find(|item| item["kind"] == "user").unwrap();
    let shown = user["blocks"].to_string();
    assert!(shown.contains("<script>alert(1)</script>"), "as text: {shown}");
    for gone in ["href", "evil.example", "\u{202e}", "\u{200b}", "\\u001b"] {
        assert!(!shown.contains(gone), "{gone:?} is in {shown}");
    }
    drop(panel);
    sandbox.finish();
}

#[test]
fn the_daemon_has_no_tcp_socket() {
    let (sandbox, _) = TestSandbox::with_worker();
    let panel = Panel::start(&sandbox, &[]);
    let _ = panel.enter();
    assert_ne!(tcp_sockets(panel.running.pid()), 0);
    assert_eq!(tcp_sockets(sandbox.daemon().pid), 0);
    drop(panel);
    sandbox.finish();
}

/// Counts the TCP sockets of a process.
fn tcp_sockets(pid: i32) -> usize {
    let tables =
        ["tcp", "tcp6"].map(|name| std::fs::read_to_string(format!("/proc/net/{name}")).unwrap_or_default());
    let inodes: Vec<String> = tables
        .iter()
        .flat_map(|table| table.lines().skip(1))
        .filter_map(|line| Some(format!("socket:[{}]", line.split_whitespace().nth(9)?)))
        .collect();
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let open = open.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
    open.filter(|file| inodes.iter().any(|inode| Path::new(inode) == file)).count()
}

#[test]
fn what_is_embedded_is_served_and_nothing_else() {
    let (sandbox, _) = TestSandbox::with_worker();
    let panel = Panel::start(&sandbox, &[]);
    let index = get(panel.port, "/", &[]);
    assert!(index.body.contains("<panel-app>") && !index.body.contains("<script>"), "{index:?}");
    assert!(get(panel.port, "/style.css", &[]).head.contains("content-type: text/css"));
    for path in ["/index.html", "/Cargo.toml", "/.git/config", "/api", "/api/", "/app.js/", "/app.js%00"] {
        let response = get(panel.port, path, &[]);
        assert_eq!((response.status, error(&response).as_str()), (400, "INVALID_ARGUMENT"), "{path}");
    }
    drop(panel);
    sandbox.finish();
}
