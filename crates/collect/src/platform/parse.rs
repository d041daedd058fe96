//! DMI strings and the kernel's release → platforms. Pure.

use stillopen_model::{Platform, PlatformKind};

/// The chassis asset tag of every Azure machine.
const AZURE_ASSET_TAG: &str = "7783-7084-3265-9085-8269-3286-77";

/// What a rule looks at.
#[derive(Clone, Copy)]
enum Where {
    /// A file of `/sys/class/dmi/id`.
    Dmi(&'static str),
    /// `uname -r`
    Release,
}

/// A text that gives a platform away. Firmware strings as vendors' pages and cloud-init's detection have them.
struct Rule {
    place: Where,
    contains: &'static str,
    kind: PlatformKind,
}

const RULES: [Rule; 13] = [
    dmi("sys_vendor", "Amazon EC2", PlatformKind::AwsEc2),
    // Xen instances.
    dmi("bios_version", "amazon", PlatformKind::AwsEc2),
    dmi("product_name", "Google Compute Engine", PlatformKind::GoogleCompute),
    dmi("chassis_asset_tag", AZURE_ASSET_TAG, PlatformKind::Azure),
    dmi("chassis_asset_tag", "OracleCloud.com", PlatformKind::OracleCloud),
    dmi("sys_vendor", "Alibaba Cloud", PlatformKind::AlibabaCloud),
    dmi("sys_vendor", "DigitalOcean", PlatformKind::DigitalOcean),
    dmi("sys_vendor", "Huawei Cloud", PlatformKind::HuaweiCloud),
    dmi("chassis_asset_tag", "HUAWEICLOUD", PlatformKind::HuaweiCloud),
    dmi("product_name", "OpenStack", PlatformKind::OpenStack),
    dmi("sys_vendor", "VMware", PlatformKind::Vmware),
    Rule { place: Where::Release, contains: "linuxkit", kind: PlatformKind::DockerDesktop },
    Rule { place: Where::Release, contains: "microsoft", kind: PlatformKind::Wsl },
];

const fn dmi(file: &'static str, contains: &'static str, kind: PlatformKind) -> Rule {
    Rule { place: Where::Dmi(file), contains, kind }
}

/// The files of `/sys/class/dmi/id` that a rule looks at.
pub(super) fn dmi_files() -> impl Iterator<Item = &'static str> {
    RULES.iter().filter_map(|rule| match rule.place {
        Where::Dmi(file) => Some(file),
        Where::Release => None,
    })
}

/// The platforms that these give away, each once. `dmi`: the text of a DMI file.
pub(super) fn platforms<'a>(
    dmi: impl Fn(&str) -> Option<&'a str>,
    release: &'a str,
) -> Vec<Platform> {
    let mut found: Vec<Platform> = Vec::new();
    for Rule { place, contains, kind } in RULES {
        let (what, text) = match place {
            Where::Dmi(file) => (format!("DMI {file}"), dmi(file).unwrap_or_default()),
            Where::Release => ("kernel release".to_owned(), release),
        };
        let is_there = text.to_ascii_lowercase().contains(&contains.to_ascii_lowercase());
        if is_there && found.iter().all(|platform| platform.kind != kind) {
            found.push(Platform { kind, evidence: format!("{what} is {:?}", text.trim()) });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_of_real_machines() {
        for (strings, release, expected) in [
            (&[("sys_vendor", "Amazon EC2\n")][..], "6.1.0", &[PlatformKind::AwsEc2][..]),
            (
                &[("bios_version", "4.11.amazon\n"), ("sys_vendor", "Xen")],
                "5.15",
                &[PlatformKind::AwsEc2],
            ),
            (&[("product_name", "Google Compute Engine")], "6.1", &[PlatformKind::GoogleCompute]),
            (
                &[("sys_vendor", "Microsoft Corporation"), ("chassis_asset_tag", AZURE_ASSET_TAG)],
                "6.8.0-azure",
                &[PlatformKind::Azure],
            ),
            // Hyper-V on a desk.
            (&[("sys_vendor", "Microsoft Corporation")], "6.1", &[]),
            (&[], "5.15.153.1-microsoft-standard-WSL2", &[PlatformKind::Wsl]),
            (&[], "6.10.14-linuxkit", &[PlatformKind::DockerDesktop]),
            (&[("sys_vendor", "QEMU"), ("product_name", "Standard PC")], "6.18", &[]),
            (&[], "", &[]),
        ] {
            let dmi =
                |file: &str| strings.iter().find(|(name, _)| *name == file).map(|(_, text)| *text);
            let found: Vec<_> =
                platforms(dmi, release).iter().map(|platform| platform.kind).collect();
            assert_eq!(found, expected, "{strings:?} {release}");
        }
    }
}
