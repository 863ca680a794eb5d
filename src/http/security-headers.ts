/**
 * On every answer. It is for its client alone, and nothing that a browser may show, frame or guess the type of (OWASP:
 * REST Security Cheat Sheet).
 */
export const SECURITY_HEADERS = {
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
} as const;
