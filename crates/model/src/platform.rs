//! What machine this is, and which limits that makes likely: hints, never verdicts.

use serde::{Deserialize, Serialize};

/// A platform that this host gave itself away as.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    /// Which one.
    pub kind: PlatformKind,
    /// What gave it away: `DMI sys_vendor is "Amazon EC2"`.
    pub evidence: String,
}

/// The platforms that a host can be told to be without asking the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlatformKind {
    /// An EC2 instance.
    AwsEc2,
    /// A Compute Engine instance.
    GoogleCompute,
    /// An Azure virtual machine.
    Azure,
    /// An OCI instance.
    OracleCloud,
    /// An ECS instance of Alibaba.
    AlibabaCloud,
    /// A droplet.
    DigitalOcean,
    /// An ECS instance of Huawei.
    HuaweiCloud,
    /// An `OpenStack` server.
    OpenStack,
    /// A virtual machine of `VMware`.
    Vmware,
    /// The virtual machine that Docker Desktop runs containers in.
    DockerDesktop,
    /// The Windows Subsystem for Linux.
    Wsl,
}

/// What is to be said about a platform.
struct Row {
    kind: PlatformKind,
    name: &'static str,
    /// Ids of the catalogue: what connections that leave the host often pass there.
    limits: &'static [&'static str],
}

const ROWS: [Row; 11] = [
    row(
        PlatformKind::AwsEc2,
        "Amazon EC2",
        &["aws-nat-gateway", "aws-nlb", "aws-ec2-security-group-nitro-v6", "aws-alb"],
    ),
    row(PlatformKind::GoogleCompute, "Google Compute Engine", &["gcp-vpc", "gcp-cloud-nat"]),
    row(PlatformKind::Azure, "Azure", &["azure-load-balancer", "azure-nat-gateway"]),
    row(PlatformKind::OracleCloud, "Oracle Cloud", &["oci-network-lb", "oci-lb-backend"]),
    row(PlatformKind::AlibabaCloud, "Alibaba Cloud", &["alibaba-slb-tcp"]),
    row(PlatformKind::DigitalOcean, "DigitalOcean", &["digitalocean-lb"]),
    row(PlatformKind::HuaweiCloud, "Huawei Cloud", &["huawei-elb"]),
    row(PlatformKind::OpenStack, "OpenStack", &["openstack-octavia"]),
    row(PlatformKind::Vmware, "VMware", &["vmware-nsx-distributed", "vmware-nsx-gateway"]),
    row(PlatformKind::DockerDesktop, "Docker Desktop", &["docker-desktop-vpnkit"]),
    row(PlatformKind::Wsl, "WSL", &["windows-winnat"]),
];

const fn row(kind: PlatformKind, name: &'static str, limits: &'static [&'static str]) -> Row {
    Row { kind, name, limits }
}

impl PlatformKind {
    fn row(self) -> &'static Row {
        ROWS.iter().find(|row| row.kind == self).expect("each kind has a row, by a test")
    }

    /// As people call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Ids of the catalogue's limits that may be on the way there.
    #[must_use]
    pub fn likely_limits(self) -> &'static [&'static str] {
        self.row().limits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Catalogue;

    #[test]
    fn each_kind_has_a_row_and_names_limits_that_there_are() {
        for (position, row) in ROWS.iter().enumerate() {
            assert_eq!(row.kind as usize, position, "{}", row.name);
            for id in row.limits {
                let known = Catalogue::builtin().find(id).expect(id);
                assert!(known.to_limit().is_ok(), "{id}");
            }
        }
    }
}
