# SPDX-License-Identifier: Apache-2.0
"""What the environment of the command says of a bucket into which a broker tiers."""

from __future__ import annotations

from dev.roots import expected_root_in_s3
from dev.s3 import ACCESS_KEY, BUCKET, REGION, SECRET_KEY
from dev.s3_tiering import S3Kafka


def environment_of(kafka: S3Kafka) -> dict[str, str]:
    """
    Return the storage as a person would set it, with the login of the server.

    :param kafka: the broker.
    """
    return {
        "RLMM_STORAGE_URI": f"s3://{BUCKET}",
        "RLMM_LAYOUT": "aiven",
        "RLMM_KEY_PREFIX": kafka.key_prefix,
        "RLMM_EXPECTED_ROOT": expected_root_in_s3(BUCKET, kafka.endpoint, [kafka.key_prefix.rpartition("/")[0]]),
        **login_of(kafka),
    }


def login_of(kafka: S3Kafka) -> dict[str, str]:
    """Return what programs of Amazon's SDKs and of obstore take from the environment."""
    return {
        "AWS_ENDPOINT_URL": kafka.endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": REGION,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
    }
