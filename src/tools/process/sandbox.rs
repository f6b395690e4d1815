//! What restricts a program: resource limits and, on Linux, Landlock and seccomp.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// How a program is restricted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// Limits of its resources.
    pub limits: Option<Limits>,
    /// What it sees of the machine.
    pub sandbox: Option<Sandbox>,
}

/// Limits of a program's resources, which its children inherit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Processor time, in seconds.
    pub cpu_sec: u64,
    /// Open files.
    pub files: u64,
    /// The size of a file that it writes, in bytes.
    pub file_bytes: u64,
}

/// What a program sees of the machine. The system's own files, such as `/usr`, can be read; no
/// others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sandbox {
    /// Whether the program must not run without it.
    pub is_required: bool,
    /// More files and directories that can be read.
    pub read: Vec<PathBuf>,
    /// Directories that can be written.
    pub write: Vec<PathBuf>,
    /// Whether it may open and accept connections.
    pub network: bool,
}

impl Sandbox {
    /// Whether the program can read this directory, or something in it that is listed.
    #[must_use]
    pub fn can_read_in(&self, directory: &Path) -> bool {
        // The kernel's rules are about what is there, whatever links lead to it.
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let directory = real(directory);
        let mut listed = self.read.iter().chain(&self.write).map(|path| real(path));
        SYSTEM.iter().any(|system| directory.starts_with(real(Path::new(system))))
            || listed.any(|path| directory.starts_with(&path) || path.starts_with(&directory))
    }
}

/// The layers that this machine can enforce.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each layer works or does not")]
pub struct Layers {
    /// Resource limits.
    pub limits: bool,
    /// No program gains privileges by being executed.
    pub no_new_privileges: bool,
    /// Files: Landlock, Linux 5.13 or later.
    pub files: bool,
    /// TCP connections: Landlock, Linux 6.7 or later.
    pub tcp: bool,
    /// System calls: no sockets at all without the network, no changes to the limits and
    /// priorities of other processes, no shared memory that outlives the call, no changes to extended
    /// attributes of files, and no environment that is hidden from the gateway.
    pub seccomp: bool,
}

impl Layers {
    /// The parts of this sandbox that cannot be enforced; empty if all of it can.
    #[must_use]
    pub fn missing(&self) -> Vec<&'static str> {
        let needs = [
            (self.no_new_privileges, "no_new_privs"),
            (self.files, "files (Landlock, Linux 5.13 or later)"),
            (self.seccomp, "system calls (seccomp, on x86-64, aarch64 and riscv64)"),
        ];
        needs.into_iter().filter(|(holds, _)| !holds).map(|(_, name)| name).collect()
    }
}

impl Confinement {
    /// Those of its layers that this machine can enforce.
    #[must_use]
    pub fn held(&self, layers: &Layers) -> Vec<&'static str> {
        let sandbox = self.sandbox.as_ref();
        let is_offline = sandbox.is_some_and(|sandbox| !sandbox.network);
        let wanted = [
            (self.limits.is_some() && layers.limits, "limits"),
            (sandbox.is_some() && layers.no_new_privileges, "no_new_privs"),
            (sandbox.is_some() && layers.files, "files"),
            (is_offline && layers.tcp, "tcp"),
            (sandbox.is_some() && layers.seccomp, "seccomp"),
        ];
        wanted.into_iter().filter(|(holds, _)| *holds).map(|(_, name)| name).collect()
    }
}

/// Files of the system that any program may need to read.
const SYSTEM: &[&str] = &[
    "/bin",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/opt",
    // Not all of /proc: it shows the environment of other processes, with their keys. `self` is
    // the program itself, not its children.
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/self",
    "/proc/stat",
    "/proc/sys",
    "/proc/uptime",
    "/proc/version",
    "/run/current-system",
    "/sbin",
    "/sys/devices/system/cpu",
    "/sys/fs/cgroup",
    "/usr",
    "/var/lib/ca-certificates",
];

/// Devices that any program may read and write.
#[cfg(target_os = "linux")]
const DEVICES: &[&str] = &["/dev/full", "/dev/null", "/dev/random", "/dev/urandom", "/dev/zero"];

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::path::Path;

    use landlock::{
        ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, LandlockStatus,
        Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetError,
        RulesetStatus, Scope, path_beneath_rules,
    };
    use rustix::process::{Resource, Rlimit, setrlimit};

    use super::super::system_calls;
    use super::{DEVICES, Layers, Limits, SYSTEM, Sandbox};

    /// The newest version of Landlock whose rules are asked for. Older kernels enforce as many of
    /// them as they know.
    const NEWEST: ABI = ABI::V10;

    impl Limits {
        /// Limits this process and what it starts.
        pub(in crate::tools::process) fn apply(&self) -> io::Result<()> {
            let limit = |resource: Resource, current: u64, maximum: u64| {
                setrlimit(resource, Rlimit { current: Some(current), maximum: Some(maximum) })
            };
            limit(Resource::Core, 0, 0)?;
            limit(Resource::Nofile, self.files, self.files)?;
            limit(Resource::Fsize, self.file_bytes, self.file_bytes)?;
            // The signal of the first one says why, the second one kills.
            limit(Resource::Cpu, self.cpu_sec, self.cpu_sec + 1)?;
            Ok(())
        }
    }

    impl Sandbox {
        /// Restricts this thread and what it executes. `program` can be read and executed.
        ///
        /// # Errors
        /// If the system refuses or, for a required sandbox, if it cannot enforce all of it.
        pub(in crate::tools::process) fn apply(&self, program: &Path) -> io::Result<()> {
            rustix::thread::set_no_new_privs(true)?;
            let status = self.restrict(program).map_err(io::Error::other)?;
            let is_there = matches!(status, LandlockStatus::Available { .. });
            if self.is_required && !is_there {
                return Err(io::Error::other("this kernel has no Landlock"));
            }
            match system_calls::restrict(self.network) {
                Err(error) if self.is_required => Err(error),
                _ => Ok(()),
            }
        }

        fn restrict(&self, program: &Path) -> Result<LandlockStatus, RulesetError> {
            let needed = if self.is_required {
                CompatLevel::HardRequirement
            } else {
                CompatLevel::BestEffort
            };
            let (read, mut all) = (AccessFs::from_read(NEWEST), AccessFs::from_all(NEWEST));
            if self.network {
                all.remove(AccessFs::ResolveUnix);
            }
            let mut ruleset = Ruleset::default()
                .set_compatibility(needed)
                .handle_access(AccessFs::from_all(ABI::V1))?
                .set_compatibility(CompatLevel::BestEffort)
                .handle_access(all)?
                .scope(Scope::from_all(NEWEST))?;
            if !self.network {
                // Without it, there are no sockets all the same.
                ruleset = ruleset.handle_access(AccessNet::from_all(NEWEST))?;
            }
            let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
            let status = ruleset
                .create()?
                .add_rules(path_beneath_rules(SYSTEM, read))?
                .add_rules(path_beneath_rules([program], read))?
                .add_rules(path_beneath_rules(&self.read, read))?
                .add_rules(path_beneath_rules(DEVICES, device))?
                .add_rules(path_beneath_rules(&self.write, all))?
                .restrict_self()?;
            Ok(status.landlock)
        }
    }

    impl Layers {
        /// Restricts this process as far as possible, and reports how far that was. The process is
        /// of no use afterwards.
        pub(in crate::tools::process) fn find_out() -> Self {
            let holds = |rules: Result<Ruleset, RulesetError>| {
                let made = rules.and_then(Ruleset::create);
                let status = made.and_then(RulesetCreated::restrict_self);
                status.is_ok_and(|status| status.ruleset == RulesetStatus::FullyEnforced)
            };
            let limits = Limits { cpu_sec: 60, files: 64, file_bytes: 1 << 20 };
            Self {
                limits: limits.apply().is_ok(),
                no_new_privileges: rustix::thread::set_no_new_privs(true).is_ok(),
                files: holds(Ruleset::default().handle_access(AccessFs::from_all(ABI::V1))),
                tcp: holds(Ruleset::default().handle_access(AccessNet::from_all(ABI::V4))),
                seccomp: system_calls::restrict(false).is_ok(),
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    use std::io;
    use std::path::Path;

    use super::{Layers, Limits, Sandbox};

    impl Limits {
        pub(in crate::tools::process) fn apply(&self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Sandbox {
        pub(in crate::tools::process) fn apply(&self, _program: &Path) -> io::Result<()> {
            match self.is_required {
                true => Err(io::Error::other("there is no sandbox on this system")),
                false => Ok(()),
            }
        }
    }

    impl Layers {
        pub(in crate::tools::process) fn find_out() -> Self {
            Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_readable_if_it_or_one_around_or_in_it_is_listed() {
        let base = tempfile::tempdir().unwrap();
        let at = |path: &str| base.path().join(path);
        std::fs::create_dir_all(at("listed/home")).unwrap();
        std::os::unix::fs::symlink(at("listed"), at("link")).unwrap();
        let sandbox = |path: &str| Sandbox { read: vec![at(path)], ..Sandbox::default() };
        for (listed, directory, can_read) in [
            ("listed", at("listed/home"), true),
            ("link", at("listed/home"), true),
            ("listed", at("link/home"), true),
            ("listed/home/below", at("listed/home"), true),
            ("listed/home/absent", at("link/home"), true),
            ("list", at("listed/home"), false),
            ("listed", at("absent"), false),
            ("listed", "/usr/share".into(), true),
        ] {
            let found = sandbox(listed).can_read_in(&directory);
            assert_eq!(found, can_read, "{listed}: {}", directory.display());
        }
        let writable = Sandbox { write: vec![at("listed")], ..Sandbox::default() };
        assert!(writable.can_read_in(&at("listed/home")));
    }

    #[test]
    fn a_sandbox_lacks_only_what_it_needs() {
        let all = Layers {
            limits: true,
            no_new_privileges: true,
            files: true,
            tcp: false,
            seccomp: true,
        };
        assert!(all.missing().is_empty());
        let old = Layers { files: false, ..all };
        assert_eq!(old.missing(), ["files (Landlock, Linux 5.13 or later)"]);
        assert_eq!(Layers::default().missing().len(), 3);
    }
}
