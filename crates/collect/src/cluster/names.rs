//! Names of files that the kubelet makes → names of pods and containers. Pure.

/// `NAMESPACE_NAME_UID` (`/var/log/pods`): neither part has an underscore of its own.
pub(super) fn of_pod_logs(file: &str) -> Option<(&str, &str, &str)> {
    let mut parts = file.split('_');
    let parts = (parts.next()?, parts.next()?, parts.next()?, parts.next());
    match parts {
        (namespace, name, uid, None) if ![namespace, name, uid].contains(&"") => {
            Some((namespace, name, uid))
        }
        _ => None,
    }
}

/// `POD_NAMESPACE_CONTAINER-ID.log` (`/var/log/containers`): the container's name and its id.
pub(super) fn of_container_log(file: &str) -> Option<(&str, &str)> {
    let last = file.strip_suffix(".log")?.split('_').nth(2)?;
    let (name, id) = last.rsplit_once('-')?;
    (!name.is_empty() && !id.is_empty()).then_some((name, id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_three_parts() {
        let parts = Some(("mining", "extract-9fq", "0f5a3c1e-7d9b-4a42-9c55-2f1f0a6b7c8d"));
        assert_eq!(of_pod_logs("mining_extract-9fq_0f5a3c1e-7d9b-4a42-9c55-2f1f0a6b7c8d"), parts);
        for bad in ["", "a", "a_b", "a__c", "a_b_c_d", "_b_c"] {
            assert_eq!(of_pod_logs(bad), None, "{bad}");
        }
        let container = "extract-9fq_mining_side-car-4f797c.log";
        assert_eq!(of_container_log(container), Some(("side-car", "4f797c")));
        for bad in ["", "a.log", "a_b.log", "a_b_c.log", "a_b_c-1", "a_b_-1.log"] {
            assert_eq!(of_container_log(bad), None, "{bad}");
        }
    }
}
