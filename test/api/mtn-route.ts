// A route to a provider of the test's own, as the file of routes that RAILS names has it.

/** MTN's in Uganda, for collections, at `baseUrl`. `key`: where the file says that both of its secrets are. */
export function mtnRoute(baseUrl: string, key: { readonly env: string } | { readonly file: string }) {
  return {
    id: 'mtn_ug',
    country: 'UG',
    network: 'MTN',
    adapter: 'mtn',
    base_url: baseUrl,
    target_environment: 'mtnuganda',
    collection: { subscription_key: key, api_user: 'user', api_key: key },
  };
}
