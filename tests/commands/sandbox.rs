//! What the kernel refuses to a program in a sandbox.

use std::net::TcpListener;
use std::os::unix::net::UnixListener;

use tether::tools::process::{Layers, Limits, Sandbox};

use super::*;

/// The layers that are active here. Without them, the tests of this file show nothing, and say so.
fn layers() -> Layers {
    launcher().layers().unwrap()
}

#[expect(clippy::print_stdout, reason = "a notice for people")]
fn holds(layer: bool, name: &str) -> bool {
    if !layer {
        println!("notice: this kernel has no Landlock for {name}, so the sandbox is not tested");
    }
    layer
}

fn sandboxed(script: &str, sandbox: Sandbox) -> Program {
    Program::script(script).with(|it| it.confinement.sandbox = Some(sandbox))
}

fn required() -> Sandbox {
    Sandbox { is_required: true, ..Sandbox::default() }
}

#[tokio::test]
async fn files_of_others_can_be_neither_read_nor_written() {
    if !holds(layers().files, "files") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let secret = directory.path().join("secret");
    std::fs::write(&secret, "s3cret").unwrap();
    let path = json!({ "x": secret.to_str().unwrap() });
    for script in ["cat \"$1\"", "echo x >> \"$1\"", "rm \"$1\"", "ls \"$(dirname \"$1\")\""] {
        let error = sandboxed(script, required()).fails(path.clone()).await;
        assert!(error.contains("ermission denied"), "{script}: {error}");
    }
    assert_eq!(text_of(&secret), "s3cret");
}

#[tokio::test]
async fn what_is_listed_can_be_read_and_written() {
    if !holds(layers().files, "files") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (read, write) = (directory.path().join("read"), directory.path().join("write"));
    std::fs::write(&read, "readable").unwrap();
    std::fs::create_dir(&write).unwrap();
    let sandbox = || Sandbox { read: vec![read.clone()], write: vec![write.clone()], ..required() };
    let cat = sandboxed("cat \"$1\"", sandbox()).prints(json!({ "x": read.to_str().unwrap() }));
    assert_eq!(cat.await, "readable");
    let error =
        sandboxed("echo x > \"$1\"", sandbox()).fails(json!({ "x": read.to_str().unwrap() }));
    assert!(error.await.contains("ermission denied"));
    let made = write.join("made");
    sandboxed("echo x > \"$1\"", sandbox()).prints(json!({ "x": made.to_str().unwrap() })).await;
    assert_eq!(text_of(&made), "x\n");
}

#[tokio::test]
async fn ordinary_programs_run_in_it() {
    let script =
        "echo a > f; sort f /dev/null | tr a-z A-Z; ls /usr > /dev/null; mktemp > /dev/null";
    assert_eq!(sandboxed(script, Sandbox::default()).prints(json!({})).await, "A");
    let python = "import json, random, tempfile, subprocess\n\
                  f = tempfile.TemporaryFile(); f.write(b'x')\n\
                  print(json.dumps({'n': subprocess.check_output(['echo', '1']).decode()}))";
    let result = python_in(python, &[], Sandbox::default()).await.run(json!({})).await.unwrap();
    assert_eq!(result, ToolResult::data(json!({ "n": "1\n" })));
}

const CONNECT: &str =
    "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])))";

async fn connects(port: u16, network: bool) -> Program {
    let sandbox = Sandbox { network, ..Sandbox::default() };
    python_in(CONNECT, &[&port.to_string()], sandbox).await
}

/// A Python program. Python may be installed outside the system's directories.
async fn python_in(program: &str, arguments: &[&str], sandbox: Sandbox) -> Program {
    let where_is = "import sys; print(sys.executable); print(sys.base_prefix)";
    let printed = Program::new(&["python3", "-c", where_is]).prints(json!({})).await;
    let (executable, prefix) = printed.split_once('\n').unwrap();
    let command = [&[executable, "-c", program], arguments].concat();
    let sandbox = Sandbox { read: vec![prefix.into()], ..sandbox };
    Program::new(&command).with(|it| it.confinement.sandbox = Some(sandbox))
}

#[tokio::test]
async fn no_connection_is_made_unless_the_network_is_allowed() {
    if !holds(layers().tcp, "TCP") {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let error = connects(port, false).await.fails(json!({})).await;
    assert!(error.contains("PermissionError"), "{error}");
    connects(port, true).await.prints(json!({})).await;
    listener.accept().unwrap();
}

/// Ways to a port or a Unix socket of this machine: one of a pair, UDP, multipath TCP, fast open, a path.
const WAYS: [&str; 5] = [
    "s, _ = socketpair(AF_UNIX, SOCK_DGRAM); s.connect(sys.argv[2])",
    "s = socket(AF_INET, SOCK_DGRAM); s.sendto(b'x', at)",
    "s = socket(AF_INET, SOCK_STREAM, 262); s.connect(at)",
    "s = socket(AF_INET, SOCK_STREAM); s.sendto(b'x', 0x20000000, at)",
    "s = socket(AF_UNIX); s.connect(sys.argv[2])",
];

#[tokio::test]
async fn no_socket_of_any_kind_is_opened_unless_the_network_is_allowed() {
    if !holds(layers().seccomp, "system calls") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let _unix = UnixListener::bind(&path).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    for way in WAYS {
        let program = format!(
            "import sys; from socket import *; at = ('127.0.0.1', int(sys.argv[1])); {way}"
        );
        let sandbox = Sandbox { read: vec![path.clone()], ..required() };
        let program = python_in(&program, &[&port, path.to_str().unwrap()], sandbox).await;
        let error = program.fails(json!({})).await;
        assert!(error.contains("PermissionError"), "{way}: {error}");
    }
}

#[tokio::test]
async fn other_processes_keep_their_limits_and_priorities() {
    if !holds(layers().seccomp, "system calls") {
        return;
    }
    let other = std::process::id().to_string();
    for change in [
        "os.setpriority(os.PRIO_USER, 0, 19)",
        "os.setpriority(os.PRIO_PGRP, 0, 19)",
        "resource.prlimit(it, resource.RLIMIT_NOFILE, (64, 64))",
        "os.setpriority(0, it, 19)",
        "os.sched_setaffinity(it, {0})",
        "os.sched_setscheduler(it, os.SCHED_BATCH, os.sched_param(0))",
    ] {
        let program = format!("import os, resource, sys; it = int(sys.argv[1]); {change}");
        let program = python_in(&program, &[&other], required()).await;
        let error = program.fails(json!({})).await;
        assert!(error.contains("PermissionError"), "{change}: {error}");
    }
    let own = "import os, resource; os.setpriority(0, 0, 5); \
               resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)); print('changed')";
    assert_eq!(python_in(own, &[], required()).await.prints(json!({})).await, "changed");
}

/// The name of the error with which a call of the C library ends.
async fn error_of(call: &str, sandbox: Sandbox) -> String {
    let program = format!(
        "import ctypes, errno, os; c = ctypes.CDLL(None, use_errno=True); \
         keys = 248 if os.uname().machine == 'x86_64' else 217; \
         c.{call}; print(errno.errorcode[ctypes.get_errno()])"
    );
    python_in(&program, &[], sandbox).await.prints(json!({})).await
}

/// `ENOTSUP` is Python's name for what Linux calls `EOPNOTSUPP`. Without the sandbox, there would be no such file.
#[tokio::test]
async fn files_get_no_attributes_and_can_be_copied_with_those_that_they_have() {
    if !holds(layers().seccomp, "system calls") {
        return;
    }
    for call in [
        "setxattr(b'a', b'user.x', b'x', 1, 0)",
        "lsetxattr(b'a', b'user.x', b'x', 1, 0)",
        "fsetxattr(-1, b'user.x', b'x', 1, 0)",
        "removexattr(b'a', b'user.x')",
        "lremovexattr(b'a', b'user.x')",
        "fremovexattr(-1, b'user.x')",
        // setxattrat and removexattrat.
        "syscall(463, -100, b'a', 0, b'user.x', None, 0)",
        "syscall(466, -100, b'a', 0, b'user.x')",
    ] {
        assert_eq!(error_of(call, required()).await, "ENOTSUP", "{call}");
    }
    let directory = tempfile::tempdir().unwrap();
    let from = directory.path().join("from");
    std::fs::write(&from, "copied").unwrap();
    let name = c"user.tether";
    // Not every file system has them.
    let _ = rustix::fs::setxattr(&from, name, b"x", rustix::fs::XattrFlags::empty());
    let sandbox = Sandbox { read: vec![from.clone()], ..required() };
    let copies = sandboxed("cp -a \"$1\" to && cp -p \"$1\" again && cat to", sandbox);
    assert_eq!(copies.prints(json!({ "x": from.to_str().unwrap() })).await, "copied");
}

#[tokio::test]
async fn no_ring_does_what_is_refused_even_with_the_network() {
    if !holds(layers().seccomp, "system calls") {
        return;
    }
    // io_uring_setup, on every processor.
    for network in [false, true] {
        let sandbox = Sandbox { network, ..required() };
        assert_eq!(error_of("syscall(425, 8, None)", sandbox).await, "EACCES", "{network}");
    }
}

/// By its environment, it is known as a part of the call, and ended with it.
#[tokio::test]
async fn no_program_hides_its_environment() {
    if !holds(layers().seccomp, "system calls") {
        return;
    }
    assert_eq!(error_of("prctl(4, 0, 0, 0, 0)", required()).await, "EACCES");
}

#[tokio::test]
async fn nothing_that_outlives_a_call_is_shared() {
    if !holds(layers().seccomp, "system calls") {
        return;
    }
    for call in [
        "shmget(0, 4096, 0o1600)",
        "shmat(0, 0, 0)",
        "semget(0, 1, 0o1600)",
        "semctl(0, 0, 0)",
        "msgget(0, 0o1600)",
        "msgctl(0, 0, 0)",
        "mq_open(b'/tether', os.O_CREAT, 0o600, 0)",
        "syscall(keys, b'user', b'tether', b'x', 1, -4)",
        "syscall(keys + 1, b'user', b'tether', None, -4)",
        "syscall(keys + 2, 0, -4, 0)",
    ] {
        assert_eq!(error_of(call, required()).await, "EACCES", "{call}");
    }
}

#[tokio::test]
async fn the_directory_where_a_program_runs_is_its_own() {
    if !holds(layers().files, "files") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let given = directory.path().to_owned();
    let program = sandboxed("echo x > made; ls .; cat made", required());
    let printed = program.with(|it| it.directory = Some(given)).prints(json!({})).await;
    assert_eq!(printed, "made\nx");
}

#[tokio::test]
async fn a_program_without_a_home_lives_in_its_directory() {
    let script = "echo name=Ada > \"$HOME/.settings\"; cd /; test \"$HOME\" = \"$OLDPWD\" && cat ~/.settings";
    let homeless = |sandbox| {
        Program::script(script).with(|it| {
            it.environment.retain(|(name, _)| name != "HOME");
            it.confinement.sandbox = sandbox;
        })
    };
    assert_eq!(homeless(Some(Sandbox::default())).prints(json!({})).await, "name=Ada");
    homeless(None).fails(json!({})).await;
}

/// Settings in `HOME` can name programs to run, and strangers may have written the directory.
#[tokio::test]
async fn a_directory_that_is_given_is_never_the_home() {
    let directory = tempfile::tempdir().unwrap();
    let given = directory.path().to_owned();
    let script = "echo x > \"$HOME/made\"; test \"$HOME\" != \"$PWD\" && ls && echo \"$HOME\"";
    let program = sandboxed(script, Sandbox::default()).with(|it| {
        it.environment.retain(|(name, _)| name != "HOME");
        it.directory = Some(given);
    });
    let home = program.prints(json!({})).await;
    assert!(home.contains("tether-") && !home.contains('\n'), "{home}");
}

#[tokio::test]
async fn a_program_gains_no_privileges() {
    let program = Program::new(&["grep", "NoNewPrivs", "/proc/self/status"]);
    let program = program.with(|it| it.confinement.sandbox = Some(Sandbox::default()));
    assert_eq!(program.prints(json!({})).await, "NoNewPrivs:\t1");
}

#[tokio::test]
async fn the_gateways_environment_stays_closed() {
    if !holds(layers().files, "files") {
        return;
    }
    let own = json!({ "x": format!("/proc/{}/environ", std::process::id()) });
    let error = sandboxed("cat \"$1\"", required()).fails(own).await;
    assert!(error.contains("ermission denied"), "{error}");
}

#[tokio::test]
async fn resources_are_limited() {
    let limits = Limits { cpu_sec: 1, files: 40, file_bytes: 4096 };
    let limited =
        |script: &str| Program::script(script).with(|it| it.confinement.limits = Some(limits));
    let printed = limited("ulimit -n; ulimit -c; ulimit -t").prints(json!({})).await;
    assert_eq!(printed, "40\n0\n1");
    let error = limited("head -c 5000 /dev/zero > f").fails(json!({})).await;
    assert!(error.contains("File size limit exceeded"), "{error}");
    let error = limited("exec sh -c 'while :; do :; done'").fails(json!({})).await;
    assert!(error.contains("SIGXCPU") || error.contains("SIGKILL"), "{error}");
}

#[tokio::test]
async fn a_program_that_is_no_launcher_is_noticed() {
    let no_launcher = Launcher::at("/bin/true".into());
    assert!(no_launcher.layers().is_err());
}
